"""README says what is so: its tables, its keys, its sample."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from pytest_roofline.model.facts import NOTES
from pytest_roofline.testing import cases

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TABLES = runpy.run_path(str(ROOT / "scripts" / "readme_tables.py"))


def section(title: str) -> str:
    return README.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def test_tables_are_those_of_the_declaration_and_the_baseline():
    """The ladder's table and every number of the results are what the declaration and the saved run give."""
    assert TABLES["filled"](README) == README, "README is out of date: run python scripts/readme_tables.py"


def test_every_note_is_explained():
    """Each note has its line."""
    for note in NOTES:
        assert f"| {note} |" in section("What the numbers mean")


def test_every_fixture_and_parameter_is_named():
    """The arguments that the plugin parametrises are all in the list."""
    for name in cases.PARAMETERS:
        assert f"`{name}`" in section("Your own kernels")


def test_the_sample_runs(empty_project):
    """The declaration, the one line and the tests that README shows work as they stand."""
    ini, declaration, generic, own = re.findall(r"```(?:python|ini)\n(.*?)```", section("Your own kernels"), re.DOTALL)
    folder = empty_project.path / "kernels"
    folder.mkdir()
    (folder / "suite.py").write_text(declaration)
    (folder / "axpby.cu").write_text((Path(__file__).parents[1] / "axpby" / "axpby.cu").read_text())
    (empty_project.path / "pytest.ini").write_text(ini)
    empty_project.pytester.makepyfile(test_generic=generic, test_own=own)
    empty_project.hide_gpu()
    result = empty_project.run("-rs")
    counts = result.parseoutcomes()
    assert counts["passed"] > 24  # the static checks alone
    assert {*counts} <= {"passed", "skipped"}  # a suite without limits has nothing to refuse
    assert "failed" not in counts


def test_options_are_those_of_the_plugin(empty_project):
    """Every option of the plugin is in the table, and no other."""
    shown = set(re.findall(r"--roofline-[\w-]+", empty_project.run("--help").stdout.str()))
    assert set(re.findall(r"`(--roofline-[\w-]+)`", section("Options"))) == shown


@pytest.mark.parametrize("word", ["TODO", "@DATE@", "@NCU@", "to be filled"])
def test_nothing_is_left_to_fill_in(word):
    """No placeholder is left."""
    assert word not in README
