"""The simulator: executes the PTX of a kernel on the CPU, behind the Protocol of :mod:`pytest_roofline.run.device`."""
