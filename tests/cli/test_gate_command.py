"""``pytest-roofline gate``: exit codes, and that a file which can't be read is never a pass."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_roofline.bench.record import Record
from pytest_roofline.cli import main

H200 = {"roofline": {"gpu": "NVIDIA H200", "evidence": "measured"}}
RTX = {"roofline": {"gpu": "NVIDIA GeForce RTX 4090", "evidence": "measured"}}


WHOLE = Record(evidence="measured", operator="rmsnorm", variant="n4", shape="8x1000").extra_info()


def record(name: str, median: Any = 1e-3, **extra: Any) -> dict[str, Any]:
    return {"fullname": name, "stats": {"median": median}, "extra_info": {**WHOLE, **extra}}


def saved(*records: Any, machine: Any = H200) -> dict[str, Any]:
    return {"machine_info": machine, "benchmarks": list(records)}


def run_gate(tmp_path: Path, baseline: Any, run: Any, *options: str) -> int:
    for name, data in (("baseline.json", baseline), ("run.json", run)):
        text = data if isinstance(data, str) else json.dumps(data)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return main(["gate", str(tmp_path / "baseline.json"), str(tmp_path / "run.json"), *options])


def test_command_line_passes_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0 within the tolerance and 1 beyond it, with the verdicts printed."""
    assert run_gate(tmp_path, saved(record("n4")), saved(record("n4", 1.04e-3))) == 0
    assert "gate passed" in capsys.readouterr().out
    assert run_gate(tmp_path, saved(record("n4")), saved(record("n4", 1.1e-3))) == 1
    out = capsys.readouterr().out
    assert out.startswith("slower")
    assert "gate FAILED: 1 of 1" in out
    assert run_gate(tmp_path, saved(record("n4")), saved(record("n4", 1.1e-3)), "--tolerance", "20%") == 0


def test_command_line_c49(tmp_path: Path) -> None:
    """C49: exit 1 for a renamed benchmark, with --partial too."""
    assert run_gate(tmp_path, saved(record("n4")), saved(record("n4_new", 1e-2)), "--partial") == 1
    both, part = saved(record("n3"), record("n4")), saved(record("n3"))
    assert run_gate(tmp_path, both, part) == 1
    assert run_gate(tmp_path, both, part, "--partial") == 0


def test_command_line_c48(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """C48: exit 1 for a baseline of another GPU, and a comparison by MBU when asked for."""
    baseline = saved(record("n4", 1e-3, mbu_percent=80.0), machine=RTX)
    run = saved(record("n4", 3e-3, mbu_percent=81.0))
    assert run_gate(tmp_path, baseline, run) == 1
    assert "refused" in capsys.readouterr().err
    assert run_gate(tmp_path, baseline, run, "--other-gpu") == 0
    assert "MBU 81.0 %, was MBU 80.0 %" in capsys.readouterr().out


BROKEN = {
    "empty file": "",
    "half a file": '{"machine_info": {"roofline"',
    "a list": [],
    "no machine_info": {"benchmarks": [record("n4")]},
    "no benchmarks": {"machine_info": H200},
    "benchmarks no list": {"machine_info": H200, "benchmarks": {"n4": 1}},
    "nothing ran": saved(),
    "no fullname": saved({"stats": {"median": 1e-3}}),
    "deep": "[" * 200_000,
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("side", ["baseline", "run"])
def test_broken_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: Any, side: str) -> None:
    """A file that is no saved run exits 2 and the message names it: never a pass, never a traceback."""
    good = saved(record("n4"))
    assert run_gate(tmp_path, *((broken, good) if side == "baseline" else (good, broken))) == 2
    assert f"{side}.json" in capsys.readouterr().err


def test_unreadable_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there, a folder and a file that is no text exit 2 and the message names it."""
    good = tmp_path / "good.json"
    good.write_text(json.dumps(saved(record("n4"))))
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00")
    for bad in (tmp_path / "none.json", tmp_path, binary):
        assert main(["gate", str(bad), str(good)]) == 2
        assert str(bad) in capsys.readouterr().err


def test_bad_usage_exits_2(tmp_path: Path) -> None:
    """A bad tolerance or a missing file name exits 2."""
    assert run_gate(tmp_path, saved(record("n4")), saved(record("n4")), "--tolerance", "5") == 2
    with pytest.raises(SystemExit) as stop:
        main(["gate", "one.json"])
    assert stop.value.code == 2


def test_c88_benchmarks_of_others_only_are_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs in which no benchmark is this plugin's hold nothing to compare, which is an error and not a pass."""
    plain = saved({"fullname": "plain", "stats": {"median": 1.0}, "extra_info": {}})
    assert run_gate(tmp_path, plain, plain) == 2
    assert "holds no benchmark" in capsys.readouterr().err


def test_verdicts_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--json says whether the gate passed, and gives each verdict with its numbers."""
    assert run_gate(tmp_path, saved(record("n4")), saved(record("n4", 1.1e-3)), "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["passed"] is False
    (verdict,) = told["verdicts"]
    assert (verdict["fullname"], verdict["status"], verdict["now"], verdict["then"]) == ("n4", "slower", 1.1e-3, 1e-3)


def test_runs_as_a_module(tmp_path: Path) -> None:
    """``python -m pytest_roofline gate`` hands the exit code to the shell."""
    files = []
    for name, median in (("baseline.json", 1e-3), ("run.json", 1.1e-3)):
        files.append(tmp_path / name)
        files[-1].write_text(json.dumps(saved(record("n4", median))))
    command = [sys.executable, "-m", "pytest_roofline", "gate", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("slower")
