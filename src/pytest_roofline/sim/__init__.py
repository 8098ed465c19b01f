"""The simulator backend. Not part of this version: its place, behind the Protocol of :mod:`pytest_roofline.device`."""
