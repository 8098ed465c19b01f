"""``python -m pytest_roofline``: sub-commands, exit codes and messages. The gate's: test_gate_command.py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_roofline import cli
from pytest_roofline.bench.measured import warm_up_launches
from pytest_roofline.cli import main
from pytest_roofline.errors import DeviceError

SUITE = Path(__file__).parents[2] / "kernels" / "suite.py"
AXPBY = Path(__file__).parents[1] / "axpby" / "suite.py"


def run(*words: str, suite: Path = SUITE) -> int:
    return main([*words, "--suite", str(suite)])


@pytest.mark.parametrize("command", ["run", "traffic"])
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("s99",), 2, "there is no variant 's99'; the suite has n1, n2, "),
        (("n3", "M=0"), 2, "M = '0' is no size; it is a whole number of at least 1"),
        (("n3", "8", "-5"), 2, "N = '-5' is no size"),
        (("n3", "8", "many"), 2, "N = 'many' is no size"),
        (("n3", "M="), 2, "M = '' is no size"),
        (("n3", "K=8"), 2, "rmsnorm has no extent 'K'; it has M, N"),
        (("n3", "8", "1000", "11"), 2, "rmsnorm has extents M, N; '11' is one too many"),
        (("s3", "M=32", "N=152064"), 3, "s3 can't run 32x152064 (M = 32, N = 152064), nothing was launched: N <= 8192"),
        (("n4", "8", "1001"), 3, "N % 4 == 0"),
        (("n3", "8", "1000", "--dtype", "float16"), 3, "it is written for elements of float32"),
        (("n1", "8", str(2**31)), 3, "can't run"),
    ],
)
def test_usage_and_refusals(capsys, command, words, code, message):
    """A wrong variant, a shape that is none and a limit end with 2 or 3 and say why, before any device is asked."""
    assert run(command, *words) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [(), ("n3",), ("run",), ("best",), ("gate", "one.json"), ("run", "n3", "--state", "tepid"),
     ("run", "n3", "--samples", "0"), ("traffic", "n3", "--gpu", "gtx1"), ("traffic", "n3", "--dtype", "fp8")],
)  # fmt: skip
def test_words_that_do_not_parse(words):
    """No command, a missing variant or file, and values that no option takes end with 2."""
    with pytest.raises(SystemExit) as stopped:
        main([*words])
    assert stopped.value.code == 2


def test_help_names_the_commands_and_exit_codes(capsys):
    """The help of the program has all commands, and each command's has the exit codes."""
    for words in ((), ("run",), ("best",), ("traffic",), ("gate",)):
        with pytest.raises(SystemExit) as stopped:
            main([*words, "--help"])
        assert stopped.value.code == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "0 right, 1 wrong answer or failed gate, 2 usage, 3 refused by a limit, 4 no device" in text
        assert words or all(name in text for name in ("run", "best", "traffic", "gate"))


@pytest.mark.parametrize(
    "words",
    [
        ("--gpu", "h200", "--json", "best", "softmax", "M=8", "N=1000"),
        ("best", "--json", "softmax", "--gpu", "h200", "M=8", "N=1000"),
        ("--gpu=h200", "best", "softmax", "8", "1000", "--json"),
    ],
)
def test_c100_options_stand_anywhere(capsys, words):
    """Before the sub-command, between its words or after them options mean the same."""
    assert run(*words) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["variant"], told["gpu"]) == ("s6", "NVIDIA H200")


def test_c100_an_options_value_is_no_command():
    """A file that is called as a command is taken for the file, and a flag has no value."""
    found = cli.parse(["--suite", "best", "traffic", "axpby", "1", "8"])
    assert (found.does, found.suite, found.variant) == (cli.traffic, Path("best"), "axpby")
    found = cli.parse(["--json", "run", "best", "--suite", "gate"])
    assert (found.does, found.suite, found.variant, found.json) == (cli.run, Path("gate"), "best", True)
    found = cli.parse(["--partial", "gate", "run", "best"])
    assert (found.does, found.partial, found.baseline, found.run) == (cli.compare, True, Path("run"), Path("best"))


def test_a_missing_suite_is_usage(capsys, tmp_path):
    """A declaration that is not there ends with 2 and its path."""
    assert run("run", "n3", suite=tmp_path / "none.py") == 2
    assert f"there is no suite at {tmp_path / 'none.py'}" in capsys.readouterr().err


def test_no_device_ends_with_4():
    """Without a GPU the exit code is 4, standard output is empty and the reason is on standard error."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(SUITE.parents[1] / "src"), environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest_roofline", "run", "n3", "8", "1000", "--suite", str(SUITE)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 4
    assert done.stdout == ""
    assert "no usable NVIDIA driver or device" in done.stderr.splitlines()[0]
    assert "traffic" in done.stderr


def test_a_cuda_error_ends_with_4(capsys, monkeypatch):
    """An error of the driver is no wrong answer."""

    def broken(path):
        raise DeviceError("waiting for the device: an illegal memory access")

    monkeypatch.setattr(cli, "load", broken)
    assert run("run", "n3") == 4
    assert "illegal memory access" in capsys.readouterr().err


def test_every_command_takes_the_same_words():
    """Every command takes --json, and those of a shape the same words for it."""
    for words in (["run", "n3"], ["best", "softmax"], ["traffic", "n3"], ["gate", "a", "b"]):
        options = vars(cli.parse([*words, "--json"]))
        assert options["json"] is True
        assert words[0] == "gate" or {"extents", "suite", "dtype", "gpu"} <= {*options}
        flags = {f"--{name.replace('_', '-')}" for name, value in options.items() if isinstance(value, bool)}
        assert flags <= {*cli.FLAGS}


def test_warm_up():
    """No warm-up launch for one sample, one for two, three from three on."""
    assert [warm_up_launches(n) for n in (1, 2, 3, 11, 100)] == [0, 1, 3, 3, 3]


@pytest.mark.parametrize("samples", ["1", "2", "11"])
def test_a_right_answer_ends_with_0(cuda_device, capsys, samples):
    """On a GPU it prints what a benchmark knows: GPU, bytes moved, launches, check, time, bandwidth, notes."""
    assert run("run", "s1", "M=32", "N=2048", "--samples", samples) == 0
    text = capsys.readouterr().out
    for word in (cuda_device.name, "moved", "16 an element", "sm_s1_div", "occupancy", "check", "us median", "MBU"):
        assert word in text
    assert "note       fits L2" in text


def test_the_record_as_json(cuda_device, capsys):
    """On a GPU --json gives the record of the benchmark."""
    assert run("run", "n4", "M=32", "N=2048", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["variant"], told["evidence"], told["extent.N"]) == ("n4", "measured", 2048)


def test_a_wrong_answer_ends_with_1(cuda_device, capsys, tmp_path):
    """On a GPU a broken kernel ends with 1, names wrong elements, and prints no time."""
    assert run("run", "n3", "8", "1000", suite=wrong(tmp_path)) == 1
    captured = capsys.readouterr()
    assert "values of y are wrong" in captured.err
    assert "GB/s" not in captured.out


def wrong(folder: Path) -> Path:
    """The shipped suite with an n3 that leaves the weight out."""
    shutil.copytree(SUITE.parent, folder / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    source = folder / "kernels" / "rmsnorm" / "n3_registers.cu"
    text = source.read_text()
    assert "xs[k] * scale * w[i]" in text
    source.write_text(text.replace("xs[k] * scale * w[i]", "xs[k] * scale"))
    return folder / "kernels" / "suite.py"


def test_a_wrong_answer_ends_with_1_without_a_gpu_too(capsys, tmp_path):
    """What is counted is checked where it was run: a wrong value there ends with 1, and no counts are printed."""
    assert run("traffic", "n3", "8", "1000", "--gpu", "h200", suite=wrong(tmp_path)) == 1
    captured = capsys.readouterr()
    assert "values of y are wrong" in captured.err
    assert captured.out == ""


def test_a_source_that_does_not_compile_is_usage(capsys, tmp_path):
    """It is neither a wrong answer nor a refusal; the compiler's log is shown."""
    shutil.copytree(AXPBY.parent, tmp_path / "kernels")
    source = tmp_path / "kernels" / "axpby.cu"
    source.write_text(source.read_text().replace("+ y[", "+ why["))
    assert run("traffic", "axpby", suite=tmp_path / "kernels" / "suite.py") == 2
    assert 'identifier "why" is undefined' in capsys.readouterr().err


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
        assert main(["traffic", "n3"]) == 2
        assert f"there is no suite at {tmp_path / declared}.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text"),
    [("pyproject.toml", "[tool.pytest\n"), ("tox.ini", "no section\n"), ("pytest.toml", "= 1\n")],
)
def test_a_configuration_that_can_not_be_read_is_usage(capsys, tmp_path, monkeypatch, name, text):
    """A damaged configuration ends with 2, its path and what to do, and without a traceback."""
    (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["traffic", "n3"]) == 2
    assert f"{tmp_path / name} can't be read for roofline_suite" in capsys.readouterr().err


def test_pytests_own_toml_file_comes_first(capsys, tmp_path, monkeypatch):
    """pytest.toml, with its table [pytest], wins over pytest.ini."""
    (tmp_path / "pytest.toml").write_text("[pytest]\nroofline_suite = 'first.py'\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nroofline_suite = second.py\n")
    monkeypatch.chdir(tmp_path)
    assert main(["traffic", "n3"]) == 2
    assert f"{tmp_path / 'first.py'}" in capsys.readouterr().err


def test_traffic_is_counted_by_source_line_without_a_gpu(capsys):
    """The time is named as modelled; each line has its requests, bytes, sectors and coalescing."""
    assert run("traffic", "n3", "M=64", "N=3584", "--gpu", "h200", "--state", "warm") == 0
    out = capsys.readouterr().out
    assert out.startswith("n3 64x3584, warm L2: ")
    assert "speed of light on NVIDIA H200, modelled, not measured" in out.splitlines()[0]
    assert out.splitlines()[1].startswith("simulated  right: ")
    (line,) = (line for line in out.splitlines() if " x " in line)
    assert line.split() == ["n3_registers.cu:19", "x", "7168", "917504", "28672", "100%"]
    assert "counted on 8 of 64 blocks" in out


def test_traffic_names_the_line_that_calls_an_access(capsys):
    """An access in an inlined function stands under the line of the kernel's own code first."""
    assert run("traffic", "n7", "64", "3584", "--gpu", "h200") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if " > " in line]
    assert [(line[0].partition(":")[0], line[2].partition(":")[0]) for line in lines if line[3] in "xwy"] == [
        ("norm.cuh", "vector.cuh")
    ] * 3


def test_traffic_as_json_is_the_record(capsys):
    """--json gives the keys of a saved benchmark; what is not named of a shape is the operator's default."""
    assert run("traffic", "n3", "M=64", "--gpu", "h200", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["evidence"], told["median_us"], told["shape"]) == ("simulated", told["sol_us"], "64x3584")
    assert told["count.rms_n3.x.requests"] == 7168


def test_best_says_which_why_and_how(capsys):
    """The variant of the operator's rule, the reason, and the launches with their macros, for any GPU of the table."""
    assert run("best", "softmax", "M=32", "N=152064", "--gpu", "h200") == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("s9, ")
    assert "of a cluster of 16 blocks" in first
    assert any(line.startswith("source     softmax/s9") and "build " in line for line in rest)
    assert any("threads in clusters of 16" in line and "CLUSTER=16" in line for line in rest)


def test_best_refuses_what_no_variant_runs(capsys):
    """What the GPU lacks is a refusal, an operator that there is not is usage."""
    assert run("best", "softmax", "8", "8", "--dtype", "float16", "--gpu", "t4") == 3
    assert "instructions of sm_80 and newer" in capsys.readouterr().err
    assert run("best", "gemm", "8", "8") == 2
    assert "there is no operator 'gemm'; there are rmsnorm, softmax, add_rmsnorm" in capsys.readouterr().err
