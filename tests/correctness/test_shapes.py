"""Every variant of the suite at every boundary shape, past 2^32 elements, and every refusal."""

from pytest_roofline.testing import test_answer, test_past_2_32_elements, test_refusal  # noqa: F401
