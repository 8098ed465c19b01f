"""The pytest plugin: what pytest loads as ``pytest_roofline.plugin``."""

from .hooks import *  # noqa: F403 - pytest takes hooks, fixtures and options from this module's names
