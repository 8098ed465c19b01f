"""Where compute-sanitizer is found, and what is said where it is not (C65)."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from pytest_roofline.errors import SanitizerNotFoundError
from pytest_roofline.run.gpu import toolkit
from pytest_roofline.sanitize import compute_sanitizer as sanitizer
from pytest_roofline.sanitize.compute_sanitizer import find


def make_tool(folder: Path) -> Path:
    """A program that answers --version as compute-sanitizer does."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "compute-sanitizer"
    path.write_text('#!/bin/sh\necho "Version 2025.3.1.0 (build 1) (public-release)"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def _no_wheel_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def none(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", none)
    monkeypatch.setattr(toolkit, "TOOLKIT", str(tmp_path / "no-toolkit"))


class TestFind:
    def test_order(self, tmp_path: Path) -> None:
        """Option before environment before PATH before toolkit."""
        places = {}
        for name in ("option", "environment", "path", "toolkit/bin"):
            folder = tmp_path / name
            folder.mkdir(parents=True)
            places[name] = make_tool(folder)
        environ = {
            "COMPUTE_SANITIZER": str(places["environment"]),
            "PATH": str(tmp_path / "path"),
            "CUDA_HOME": str(tmp_path / "toolkit"),
        }
        assert find(str(places["option"]), environ).path == places["option"]
        for name, variable in (("environment", "COMPUTE_SANITIZER"), ("path", "PATH"), ("toolkit/bin", "CUDA_HOME")):
            tool = find(None, environ)
            assert (tool.path, tool.version) == (places[name], "2025.3.1.0")
            del environ[variable]

    @pytest.mark.parametrize("layout", ["bin", "compute-sanitizer"])
    def test_toolkit_layouts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
        """A toolkit is searched in bin and in compute-sanitizer, at $CUDA_PATH and at the default place."""
        folder = tmp_path / "cuda" / layout
        folder.mkdir(parents=True)
        path = make_tool(folder)
        assert find(None, {"CUDA_PATH": str(tmp_path / "cuda")}).path == path
        monkeypatch.setattr(toolkit, "TOOLKIT", str(tmp_path / "cuda"))
        assert find(None, {}).path == path

    def test_named_but_not_there(self, tmp_path: Path) -> None:
        """A tool that was named and does not work is an error, not a reason to take another one."""
        working = make_tool(tmp_path)
        with pytest.raises(SanitizerNotFoundError, match="--roofline-sanitizer names /no/such/tool"):
            find("/no/such/tool", {"PATH": str(tmp_path)})
        with pytest.raises(SanitizerNotFoundError, match=r"\$COMPUTE_SANITIZER names"):
            find(None, {"COMPUTE_SANITIZER": "/bin/false", "PATH": str(tmp_path)})
        assert find(None, {"PATH": str(tmp_path)}).path == working

    def test_c65_nothing_there(self) -> None:
        """C65: without a tool the error says where it was looked for and what to install."""
        with pytest.raises(SanitizerNotFoundError) as raised:
            find(None, {"PATH": "/nowhere"})
        for text in (
            "PATH",
            "$CUDA_HOME",
            "no-toolkit",
            "pip install nvidia-cuda-sanitizer-api",
            "--roofline-sanitizer",
        ):
            assert text in str(raised.value)

    def test_broken_tool_is_passed_over(self, tmp_path: Path) -> None:
        """A file that does not answer --version is skipped, and named where nothing else is found."""
        broken = tmp_path / "broken"
        broken.mkdir()
        (broken / "compute-sanitizer").write_text("#!/bin/sh\nexit 1\n")
        (broken / "compute-sanitizer").chmod(0o755)
        with pytest.raises(SanitizerNotFoundError, match="ended with 1"):
            find(None, {"PATH": str(broken)})


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tree of the PyPI wheel, its files without run bits, visible to importlib.metadata."""
    site = tmp_path / "site"
    tree = site / "nvidia" / "cu13" / "compute-sanitizer"
    (tree / "docs" / "deep").mkdir(parents=True)
    path = make_tool(tree)
    for name in ("TreeLauncherSubreaper", "libsanitizer-public.so", "docs/deep/index.html"):
        (tree / name).write_text(name)
    path.chmod(0o644)
    info = site / "nvidia_cuda_sanitizer_api-13.5.25.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nvidia-cuda-sanitizer-api\nVersion: 13.5.25\n")
    (info / "RECORD").write_text(
        "nvidia/cu13/bin/compute-sanitizer,,\nnvidia/cu13/compute-sanitizer/compute-sanitizer,,\n"
    )
    use_distributions(monkeypatch, info)
    monkeypatch.setenv("PYTEST_ROOFLINE_CACHE", str(tmp_path / "cache"))
    return tree


def use_distributions(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    known = {d.metadata["Name"]: d for d in map(metadata.PathDistribution, folders)}

    def distribution(name: str) -> metadata.Distribution:
        if name not in known:
            raise metadata.PackageNotFoundError(name)
        return known[name]

    monkeypatch.setattr(metadata, "distribution", distribution)


class TestWheel:
    def test_copy_with_run_bits(self, tmp_path: Path, wheel: Path) -> None:
        """The wheel's files, which may not be run, are copied to the cache and made runnable there; the wheel stays."""
        tool = find(None, {})
        assert tool.path == tmp_path / "cache" / "sanitizer-13.5.25" / "compute-sanitizer"
        assert tool.version == "2025.3.1.0"
        assert os.access(tool.path.with_name("TreeLauncherSubreaper"), os.X_OK)
        assert not tool.path.with_name("docs").exists()
        assert not os.access(wheel / "compute-sanitizer", os.X_OK)
        assert [path.name for path in (tmp_path / "cache").iterdir()] == ["sanitizer-13.5.25"]
        assert find(None, {}).path == tool.path

    def test_in_place(self, wheel: Path) -> None:
        """A wheel whose programs may be run is used where it lies."""
        for name in ("compute-sanitizer", "TreeLauncherSubreaper"):
            (wheel / name).chmod(0o755)
        assert find(None, {}).path == wheel / "compute-sanitizer"

    def test_another_worker_was_first(self, tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two workers that copy at once end with one whole tree and no leftovers."""
        copytree = sanitizer.shutil.copytree
        target = tmp_path / "cache" / "sanitizer-13.5.25"

        def slow(source: Path, destination: Path, **options: Any) -> None:
            copytree(source, destination, **options)
            monkeypatch.setattr(sanitizer.shutil, "copytree", copytree)
            sanitizer._runnable_copy(wheel, target)

        monkeypatch.setattr(sanitizer.shutil, "copytree", slow)
        assert find(None, {}).path == target / "compute-sanitizer"
        assert [path.name for path in (tmp_path / "cache").iterdir()] == ["sanitizer-13.5.25"]

    def test_copy_cut_short(self, tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A copy that fails half-way leaves nothing behind that a later run would take for a tool."""

        def full(source: Path, destination: Path, **options: Any) -> None:
            destination.mkdir()
            (destination / "compute-sanitizer").write_text("half")
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(sanitizer.shutil, "copytree", full)
        with pytest.raises(SanitizerNotFoundError, match="No space left"):
            find(None, {})
        assert [path.name for path in (tmp_path / "cache").iterdir()] == []

    def test_cu12_wheel(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The wheel for CUDA 12 is not used, since it can't attach, and the error says so."""
        info = tmp_path / "nvidia_cuda_sanitizer_api_cu12-12.9.79.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: nvidia-cuda-sanitizer-api-cu12\nVersion: 12.9.79\n"
        )
        use_distributions(monkeypatch, info)
        with pytest.raises(SanitizerNotFoundError, match=r"cu12.*can't attach.*pip install nvidia-cuda-sanitizer-api "):
            find(None, {})
