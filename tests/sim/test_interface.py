"""The code that programs are made of calls what its interface names, and nothing else."""

from __future__ import annotations

import inspect
import re
from typing import get_type_hints

import pytest

from pytest_roofline.sim.isa import arithmetic, emit_lanes, emit_memory, emit_order, interface, translate, writer

WRITERS = (arithmetic, emit_lanes, emit_memory, emit_order, translate, writer)
CALL = re.compile(r"(?<![\w.])x\.(\w+)(?:\.([a-z_{]\w*))?")


def parts() -> dict[str, type]:
    """The parts of an executor by name."""
    found = inspect.getmembers(interface.Executor, lambda one: isinstance(one, property))
    return {name: get_type_hints(one.fget)["return"] for name, one in found}


@pytest.mark.parametrize("module", WRITERS, ids=lambda module: module.__name__.rsplit(".", 1)[-1])
def test_generated_code_calls_what_the_interface_names(module):
    """mypy holds the machine to the interface; this holds the text of the code to it."""
    texts = re.findall(r'"[^"]*"', inspect.getsource(module))
    called = {found for text in texts for found in CALL.findall(text)}
    assert called
    for name, of in called:
        assert name in {*dir(interface.Executor), *get_type_hints(interface.Executor)}, f"x.{name}"
        if name in parts() and of and "{" not in of:  # a part in braces is one of two that stand beside it
            assert hasattr(parts()[name], of), f"x.{name}.{of}"
