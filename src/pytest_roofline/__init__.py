"""How close a CUDA kernel runs to the roofline, whether its answers are right, and whether it races."""

__version__ = "0.1.0"
