"""The package's version."""

__version__ = "0.2.0.dev0"
