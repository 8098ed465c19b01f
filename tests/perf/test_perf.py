"""Every variant of the suite at every shape of every workload."""

from pytest_roofline.testing import test_refused_workload, test_time  # noqa: F401
