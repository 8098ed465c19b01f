"""README says what is so: its tables, its keys, its sample."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from pytest_roofline import Shape, load
from pytest_roofline.bench.modelled import Models
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.model.facts import MARKS
from pytest_roofline.testing import cases

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TABLES = runpy.run_path(str(ROOT / "scripts" / "readme_tables.py"))


def section(title: str) -> str:
    return README.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def test_tables_are_those_of_the_declaration_and_the_baseline():
    """The ladder's table and every number of the results are what the declaration and the saved run give."""
    assert TABLES["filled"](README) == README, "README is out of date: run python scripts/readme_tables.py"


def general(key, suite):
    """A key with the names of kernels, arrays and classes of instructions taken out, as README has it."""
    kernels = {launch.kernel for variant in suite.variants for launch in variant.launches}
    arrays = {name for variant in suite.variants for name in variant.arrays} | {"shared"}
    key = re.sub(rf"(^|\.)({'|'.join(kernels)})\.", r"\1KERNEL.", key)
    key = re.sub(rf"KERNEL\.({'|'.join(arrays)})\.", "KERNEL.ARRAY.", key)
    return re.sub(r"issued\.\w+$", "issued.CLASS", key)


def test_every_recorded_key_is_in_the_table_and_the_other_way_round():
    """The documented keys of extra_info are exactly those of the saved run, and the note of a modelled one."""
    suite = load(ROOT / "kernels" / "suite.py")
    run = json.loads(TABLES["BASELINE"].read_text(encoding="utf-8"))
    recorded = {general(key, suite) for b in run["benchmarks"] for key in b["extra_info"]}
    documented, before = set(), ""
    for row in section("What is recorded").splitlines():
        for key in re.findall(r"`([\w.]+)`", row.split("|")[1]) if row.startswith("| `") else ():
            whole = before.rsplit(".", 1)[0] + key if key.startswith(".") else key  # `.bytes` after `KERNEL.requests`
            documented.add(whole)
            before = whole
    assert documented - recorded == {"note"}
    assert recorded - documented == set()
    model = Models(suite, gpu_named("rtx4090")).model(suite.variant("s2"), Shape(M=32, N=2048), "cold").record()
    assert {general(key, suite) for key in model} - documented == set()


def test_every_mark_is_explained():
    """Each mark of the table has its line."""
    for mark in MARKS:
        assert f"| {mark} |" in section("What the numbers mean")


def test_every_fixture_and_parameter_is_named():
    """The arguments that the plugin parametrises are all in the list."""
    for name in cases.PARAMETERS:
        assert f"`{name}`" in section("Your own kernels")


def test_the_sample_runs(empty_project):
    """The declaration and the tests that README shows work as they stand."""
    blocks = re.findall(r"```(?:python|ini)\n(.*?)```", section("Your own kernels"), re.DOTALL)
    ini, declaration, tests = blocks
    folder = empty_project.path / "kernels"
    folder.mkdir()
    (folder / "suite.py").write_text(declaration)
    (folder / "axpby.cu").write_text((Path(__file__).parents[1] / "axpby" / "axpby.cu").read_text())
    (empty_project.path / "pytest.ini").write_text(ini)
    empty_project.pytester.makepyfile(test_sample=tests)
    empty_project.use_tests(static="static/test_static.py")
    empty_project.hide_gpu()
    counts = empty_project.run().parseoutcomes()
    assert counts["passed"] > 24  # the static checks alone
    assert set(counts) == {"passed"}


def test_options_are_those_of_the_plugin(empty_project):
    """Every option of the plugin is in the table, and no other."""
    shown = set(re.findall(r"--roofline-[\w-]+", empty_project.run("--help").stdout.str()))
    assert set(re.findall(r"`(--roofline-[\w-]+)`", section("Options"))) == shown


@pytest.mark.parametrize("word", ["TODO", "@DATE@", "@NCU@", "to be filled"])
def test_nothing_is_left_to_fill_in(word):
    """No placeholder is left."""
    assert word not in README
