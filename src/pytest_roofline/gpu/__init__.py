"""The GPU backend: CuPy, CUDA events, compute-sanitizer. Never imports the simulator."""
