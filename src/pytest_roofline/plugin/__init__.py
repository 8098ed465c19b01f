"""The pytest plugin: what pytest loads as ``pytest_roofline.plugin``."""

# pytest takes options, hooks and fixtures from this module's names.
from .fixtures import *  # noqa: F403
from .hooks import *  # noqa: F403
from .options import *  # noqa: F403
