"""What the compiler made of each kernel of the suite, on every architecture in use."""

from pytest_roofline.testing import (  # noqa: F401
    test_global_accesses,
    test_no_spill_and_no_stack,
    test_parameters_have_the_declared_types,
    test_the_reference_gives_every_output,
)
