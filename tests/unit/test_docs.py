"""docs/simulator.md says what is there."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_roofline.sim.isa.translate import supported
from pytest_roofline.sim.observe.findings import BARRIER, CONVERGENCE, MEMORY, RACE, STEPS, TRAP, UNINITIALISED

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")


def test_the_opcodes_are_those_of_the_tables():
    """The list of opcodes is that of the translator, no more and no less."""
    listed = re.search(r"<!-- opcodes -->(.*?)<!-- end of opcodes -->", TEXT, re.DOTALL)
    assert tuple(re.findall(r"`(\w+)`", listed[1])) == supported()


def test_every_kind_and_every_module_is_explained():
    """Each kind of finding has a row, and each module of the simulator is named."""
    kinds = re.findall(r"^\| (\w+) \| ", TEXT, re.MULTILINE)
    assert {BARRIER, CONVERGENCE, MEMORY, RACE, STEPS, TRAP, UNINITIALISED} <= {*kinds}
    modules = {path.stem for path in (ROOT / "src" / "pytest_roofline" / "sim").glob("*.py")} - {"__init__", "errors"}
    assert modules <= {*re.findall(r"`(\w+)`", TEXT)} | {"special"}
