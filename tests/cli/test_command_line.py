"""``python -m pytest_roofline``: exit codes and messages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_roofline.bench.measure import warm_up_launches

from pytest_roofline.cli import main

SUITE = Path(__file__).parents[2] / "kernels" / "suite.py"


def run(*words: str, suite: Path = SUITE) -> int:
    return main([*words, "--suite", str(suite)])


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("s99",), 2, "there is no variant 's99'; the suite has n1, n2, "),
        (("n3", "0"), 2, "M must be at least 1, got 0"),
        (("n3", "8", "-5"), 2, "N must be at least 1, got -5"),
        (("n3", "8", "1000", "0"), 2, "ITERS must be at least 1, got 0"),
        (("s3", "32", "152064"), 3, "s3 can't run 32x152064, nothing was launched: N = 152064"),
        (("n4", "8", "1001"), 3, "allowed is N % 4 == 0"),
        (("n1", str(2**31), "4"), 3, "a shape needs 1 <= M <= 2147483647"),
    ],
)
def test_usage_and_refusals(capsys, words, code, message):
    """A wrong variant, a shape that is none and a limit end with 2 or 3 and say why, before any device is asked."""
    assert run(*words) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("words", [(), ("n3", "many"), ("n3", "8", "1000", "11", "12"), ("n3", "--state", "tepid")])
def test_words_that_do_not_parse(words):
    """A missing variant, a word for a number, one word too many and an unknown state end with 2."""
    with pytest.raises(SystemExit) as stopped:
        main([*words])
    assert stopped.value.code == 2


def test_a_missing_declaration_is_usage(capsys, tmp_path):
    """A declaration that is not there ends with 2 and its path."""
    assert run("n3", suite=tmp_path / "none.py") == 2
    assert f"there is no suite declaration at {tmp_path / 'none.py'}" in capsys.readouterr().err


def test_no_device_ends_with_4():
    """Without a GPU the exit code is 4, standard output is empty and the reason is on standard error."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(SUITE.parents[1] / "src"), environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest_roofline", "n3", "8", "1000", "--suite", str(SUITE)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 4
    assert done.stdout == ""
    assert done.stderr.startswith("error: no usable NVIDIA driver or device")


def test_warm_up():
    """No warm-up launch for one sample, one for two, three from three on."""
    assert [warm_up_launches(n) for n in (1, 2, 3, 11, 100)] == [0, 1, 3, 3, 3]


@pytest.mark.parametrize("samples", ["1", "2", "11"])
def test_a_right_answer_ends_with_0(cuda_device, capsys, samples):
    """On a GPU it prints what a benchmark knows: gpu, ledger, launches, check, time, bandwidth, marks."""
    assert run("s1", "32", "2048", samples) == 0
    text = capsys.readouterr().out
    for word in (
        cuda_device.name,
        "ledger",
        "16N a row",
        "sm_s1_div",
        "occupancy",
        "check",
        f"median of {samples}",
        "MBU",
    ):
        assert word in text
    assert "mark       fits L2" in text


def test_a_wrong_answer_ends_with_1(cuda_device, capsys, tmp_path):
    """On a GPU a broken kernel ends with 1, names wrong elements, and prints no time."""
    shutil.copytree(SUITE.parent, tmp_path / "kernels")
    source = tmp_path / "kernels" / "rmsnorm" / "n3_registers.cu"
    source.write_text(source.read_text().replace("xs[k] * scale * w[i]", "xs[k] * scale"))
    assert run("n3", "8", "1000", suite=tmp_path / "kernels" / "suite.py") == 1
    captured = capsys.readouterr()
    assert "values of y are wrong" in captured.err
    assert "GB/s" not in captured.out


def test_the_declaration_is_the_configured_one(capsys, tmp_path, monkeypatch):
    """Without --suite it is the one that the pytest configuration at or above the working directory names."""
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    files = {
        "setup.cfg": "[tool:pytest]\nroofline_suite = a.py\n",
        "tox.ini": "[pytest]\nroofline_suite = b.py\n",
        "pyproject.toml": "[tool.pytest.ini_options]\nroofline_suite = 'c.py'\n",
        "pytest.ini": "[pytest]\nroofline_suite = d.py\n",
    }
    for (name, text), declared in zip(files.items(), "abcd", strict=True):
        (tmp_path / name).write_text(text)
        assert main(["n3"]) == 2
        assert f"no suite declaration at {tmp_path / declared}.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text"),
    [("pyproject.toml", "[tool.pytest\n"), ("tox.ini", "no section\n"), ("pytest.toml", "= 1\n")],
)
def test_a_configuration_that_can_not_be_read_is_usage(capsys, tmp_path, monkeypatch, name, text):
    """A damaged configuration ends with 2, its path and what to do, and without a traceback."""
    (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["n3"]) == 2
    assert f"{tmp_path / name} can't be read for roofline_suite" in capsys.readouterr().err


def test_pytests_own_toml_file_comes_first(capsys, tmp_path, monkeypatch):
    """pytest.toml, with its table [pytest], wins over pytest.ini."""
    (tmp_path / "pytest.toml").write_text("[pytest]\nroofline_suite = 'first.py'\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nroofline_suite = second.py\n")
    monkeypatch.chdir(tmp_path)
    assert main(["n3"]) == 2
    assert f"{tmp_path / 'first.py'}" in capsys.readouterr().err


def test_traffic_is_counted_by_source_line_without_a_gpu(capsys):
    """--traffic names the floor as modelled, and gives each line's requests, bytes, sectors and coalescing."""
    assert run("n3", "64", "3584", "--traffic", "--gpu", "h200", "--state", "warm") == 0
    out = capsys.readouterr().out
    assert out.startswith("n3 64x3584, warm L2: ")
    assert "modelled floor on NVIDIA H200, not measured" in out.splitlines()[0]
    (line,) = (line for line in out.splitlines() if " x " in line)
    assert line.split() == ["n3_registers.cu:19", "x", "7168", "917504", "28672", "100%"]
    assert "counted on 8 of 64 blocks" in out


def test_traffic_names_the_line_that_calls_an_access(capsys):
    """An access in an inlined function stands under the line of the kernel's own code first."""
    assert run("n7", "64", "3584", "--traffic", "--gpu", "h200") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if " > " in line]
    assert [(line[0].partition(":")[0], line[2].partition(":")[0]) for line in lines if line[3] in "xwy"] == [
        ("norm.cuh", "vector.cuh")
    ] * 3
