"""docs and CONTRIBUTING.md say what is there."""

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
    modules = {path.stem for path in (ROOT / "src" / "pytest_roofline" / "sim").rglob("*.py")} - {"__init__", "errors"}
    assert modules <= {*re.findall(r"`(\w+)`", TEXT)}


def test_every_room_is_explained():
    """CONTRIBUTING.md names each room of the package, and nothing as a room that is not there."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = {path.parent.name for path in (ROOT / "src" / "pytest_roofline").glob("*/__init__.py")}
    table = re.search(r"^\| room of .*?\n\n", text, re.DOTALL | re.MULTILINE)
    assert {*re.findall(r"^\| `(\w+)`", table[0], re.MULTILINE)} == rooms


def test_every_command_and_option_of_the_docs_is_there():
    """Options and sub-commands that the documents name are those of the plugin and of the command line."""
    texts = [path.read_text(encoding="utf-8") for path in (*ROOT.glob("docs/*.md"), ROOT / "CONTRIBUTING.md")]
    named = {option for text in texts for option in re.findall(r"--roofline-[a-z-]+[a-z]", text)}
    known = set(re.findall(r"--roofline-[a-z-]+[a-z]", (ROOT / "src/pytest_roofline/plugin/options.py").read_text()))
    assert named <= known
    commands = {name for text in texts for name in re.findall(r"pytest-roofline ([a-z]+) ", text)}
    assert commands <= {"run", "best", "traffic", "gate"}
    assert len(commands) > 2
