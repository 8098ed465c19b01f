"""Tests for any declaration: a project's whole test file is ``from pytest_roofline.testing import *``, or some by name.

What they are run on comes from the suite that the ini key ``roofline_suite`` names: boundary shapes of every variant,
shapes past each limit and past 2^32 elements, every workload. On a GPU they measure; without one the compiled kernels
are simulated, and a time is the modelled speed of light.
"""

from .correctness import test_answer, test_past_2_32_elements, test_refusal
from .perf import test_refused_workload, test_time
from .sanitizing import test_memory_and_barriers, test_racecheck
from .statics import (
    test_global_accesses,
    test_no_spill_and_no_stack,
    test_parameters_have_the_declared_types,
    test_the_reference_gives_every_output,
)

__all__ = [
    "test_answer",
    "test_global_accesses",
    "test_memory_and_barriers",
    "test_no_spill_and_no_stack",
    "test_parameters_have_the_declared_types",
    "test_past_2_32_elements",
    "test_racecheck",
    "test_refusal",
    "test_refused_workload",
    "test_the_reference_gives_every_output",
    "test_time",
]
