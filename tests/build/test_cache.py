"""The store on disk: what comes back is what was put there or nothing, its size is bounded, and it is never needed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from pytest_roofline.build import cache
from pytest_roofline.build.cache import CacheWarning, Store
from pytest_roofline.errors import UnknownNameError

MIB = 2**20
LARGE = 100 * 1024


def key(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def content(number: int) -> bytes:
    return key(number).encode() * (LARGE // 64)


def entries(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if cache.KEY.fullmatch(path.name)]


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_what_was_put_there_comes_back(tmp_path: Path) -> None:
    """In this process and in another; what never was put there is None; nothing else lies in the folder."""
    store = Store(tmp_path / "made" / "here")
    assert store.get(key(0)) is None
    assert not store.folder.exists()
    for name, data in ((key(0), b"some\nbytes"), (key(0) + "-cold", b""), (key(1), b"a")):
        store.put(name, data)
        assert store.get(name) == Store(store.folder).get(name) == data
    store.put(key(0), b"others")
    assert Store(store.folder).get(key(0)) == b"others"
    assert {path.name for path in store.folder.iterdir()} == {key(0), key(0) + "-cold", key(1), cache.GROWN}


@pytest.mark.parametrize("name", ["", "k", "../" + key(0), key(0).upper(), key(0) + "-", key(0)[1:]])
def test_a_key_is_a_digest(tmp_path: Path, name: str) -> None:
    """Anything else could lie elsewhere, or be taken for another file."""
    store = Store(tmp_path)
    for use in (lambda: store.get(name), lambda: store.put(name, b"")):
        with pytest.raises(ValueError, match="is not a key: 64 hex digits"):
            use()


DAMAGE = {
    "cut": lambda data: data[:-1],
    "empty": lambda data: b"",
    "a byte": lambda data: data[:-1] + b"!",
    "the digest": lambda data: b"0" + data[1:] if data[:1] != b"0" else b"1" + data[1:],
    "longer": lambda data: data + b"!",
    "no digest": lambda data: data.partition(b"\n")[2],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_absence(tmp_path: Path, damage: str) -> None:
    """An entry that was cut or changed is absent until it is written anew."""
    store = Store(tmp_path)
    store.put(key(0), b"12345\n6789")
    path = tmp_path / key(0)
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    assert store.get(key(0)) is None
    store.put(key(0), b"again")
    assert store.get(key(0)) == b"again"


def test_an_entry_in_the_place_of_another_is_absent(tmp_path: Path) -> None:
    """The digest is of the key as well."""
    store = Store(tmp_path)
    store.put(key(0), b"0")
    (tmp_path / key(0)).rename(tmp_path / key(1))
    assert store.get(key(1)) is None


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """What was there before stays, and no partial file is left."""
    store = Store(tmp_path)
    store.put(key(0), b"before")

    def interrupted(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", interrupted)
        with pytest.raises(error):
            store.put(key(0), b"after")
    assert store.get(key(0)) == b"before"
    assert len(entries(tmp_path)) == 1
    assert not list(tmp_path.glob(cache.PARTIAL + "*"))


READERS_AND_WRITERS = """
import sys, time
from pathlib import Path
from pytest_roofline.build.cache import Store
store, end = Store(Path(sys.argv[1])), time.time() + 1
data = [bytes([number]) * 300_000 for number in range(8)]
seen = 0
while time.time() < end:
    number = int(time.time() * 1e6) % 8
    store.put("%064x" % number, data[number])
    for number in range(8):
        found = Store(store.folder).get("%064x" % number)
        assert found in (None, data[number]), number
        seen += found is not None
assert seen > 8
"""


def test_several_processes_at_once(tmp_path: Path) -> None:
    """Whoever reads while others write sees all of an entry or, before the first time, nothing."""
    command = [sys.executable, "-c", READERS_AND_WRITERS, str(tmp_path)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for one in running:
        assert one.communicate()[1] == ""
        assert one.returncode == 0
    assert len(entries(tmp_path)) == 8
    assert not list(tmp_path.glob(cache.PARTIAL + "*"))


@pytest.mark.parametrize("processes", [False, True])
def test_c104_the_size_is_bounded(tmp_path: Path, processes: bool) -> None:
    """However much is written, by one process or by as many as there are entries, the folder stays below the limit."""
    one = Store(tmp_path, MIB)
    for number in range(60):
        store = Store(tmp_path, MIB) if processes else one
        store.put(key(number), content(number))
        assert size(tmp_path) <= MIB
        assert store.get(key(number)) == content(number)
    assert len(entries(tmp_path)) >= 5


def test_the_least_recently_used_are_pushed_out(tmp_path: Path) -> None:
    """Entries that are read stay, though they were written first."""
    store = Store(tmp_path, MIB)
    for number in range(6):
        store.put(key(number), content(number))
        os.utime(tmp_path / key(number), (number, number))
    assert store.get(key(0)) == content(0)  # used now
    for number in range(6, 12):
        store.put(key(number), content(number))
    assert (tmp_path / key(0)).exists()
    assert not (tmp_path / key(1)).exists()
    assert not (tmp_path / key(2)).exists()


def test_the_folder_is_seldom_looked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once when it is new, then after each eighth of the limit, whoever wrote it."""
    looked = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (looked.append(path), real(path))[1])
    for number in range(200):
        Store(tmp_path, 8 * MIB).put(key(number), b"1" * 900)
    assert len(looked) == 1
    for number in range(12):
        Store(tmp_path, 8 * MIB).put(key(number), content(number))
    assert len(looked) == 2


def test_an_entry_larger_than_the_limit(tmp_path: Path) -> None:
    """It is not kept."""
    store = Store(tmp_path, MIB)
    store.put(key(0), b"1" * 2 * MIB)
    assert size(tmp_path) < MIB
    assert store.get(key(0)) is None


def test_what_interrupted_writes_left_is_removed(tmp_path: Path) -> None:
    """Old partial files go when the folder is looked through; those being written stay, and so do files of others."""
    old, young, foreign = (tmp_path / name for name in (f"{cache.PARTIAL}a", f"{cache.PARTIAL}b", "notes.txt"))
    for path in (old, young, foreign):
        path.write_bytes(b"1" * 2 * MIB)
    before = time.time() - cache.STALE - 1
    for path in (old, foreign):
        os.utime(path, (before, before))
    Store(tmp_path, MIB).put(key(0), b"data")
    assert {path.name for path in tmp_path.iterdir()} == {young.name, foreign.name, key(0), cache.GROWN}


def test_a_folder_that_can_not_be_written_is_said_once(tmp_path: Path) -> None:
    """Work goes on: what is put there is known as long as the process lives."""
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "store")
    with pytest.warns(CacheWarning, match=r"can't be written to .*file.store .*set PYTEST_ROOFLINE_CACHE to a folder"):
        store.put(key(0), b"0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put(key(1), b"1")
    assert [store.get(key(number)) for number in range(3)] == [b"0", b"1", None]


def test_a_full_disk_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error while writing is like a folder that can't be written; what was there before is still read."""
    store = Store(tmp_path)
    store.put(key(0), b"0")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.warns(CacheWarning, match="No space left on device"):
        store.put(key(1), b"1")
    assert [store.get(key(number)) for number in range(2)] == [b"0", b"1"]
    assert not list(tmp_path.glob(cache.PARTIAL + "*"))


def test_no_size_keeps_nothing_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 MiB: entries are known in the process alone, without a word."""
    monkeypatch.setenv("PYTEST_ROOFLINE_CACHE", str(tmp_path))
    monkeypatch.setenv("PYTEST_ROOFLINE_CACHE_SIZE", "0")
    cache.store().put(key(0), b"0")
    assert cache.store().get(key(0)) == b"0"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("given", "mib"), [(None, 512), ("", 512), ("7", 7), ("0", 0)])
def test_the_size_is_asked_for_in_mib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None, mib: int
) -> None:
    """512 by default."""
    monkeypatch.setenv("PYTEST_ROOFLINE_CACHE", str(tmp_path))
    monkeypatch.delenv("PYTEST_ROOFLINE_CACHE_SIZE", raising=False)
    if given is not None:
        monkeypatch.setenv("PYTEST_ROOFLINE_CACHE_SIZE", given)
    assert (cache.store().limit, cache.store().folder) == (mib * MIB, tmp_path / "store")
    assert cache.store() is cache.store()


@pytest.mark.parametrize("given", ["-1", "1.5", "many", "²"])
def test_a_size_that_is_none(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """The value and what is allowed."""
    monkeypatch.setenv("PYTEST_ROOFLINE_CACHE_SIZE", given)
    with pytest.raises(UnknownNameError, match=rf"CACHE_SIZE is '{given}'; set it to a whole number of MiB, 0 to keep"):
        cache.store()


def test_the_cache_is_in_the_users_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the variable it lies where the platform keeps caches: on Linux XDG_CACHE_HOME, or ~/.cache."""
    monkeypatch.setenv("PYTEST_ROOFLINE_CACHE", str(tmp_path / "there" / ".." / "here"))
    assert cache.cache_directory() == tmp_path / "here"
    monkeypatch.delenv("PYTEST_ROOFLINE_CACHE")
    if not sys.platform.startswith("linux"):
        pytest.skip("not checked: the folders of another platform are platformdirs' own")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_directory() == tmp_path / "pytest-roofline"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.cache_directory() == tmp_path / ".cache" / "pytest-roofline"


FILES = """
import os, sys
from pytest_roofline.build.cache import process_file
path = process_file("a", ".cubin", b"data")
assert process_file("a", ".cubin", b"data") == path
assert path.suffix == ".cubin"
assert path not in (process_file("b", ".cubin", b"data"), process_file("a", ".cubin", b"other"))
child = os.fork()
if not child:
    process_file("a", ".cubin", b"data")
    sys.exit(0)  # runs what is to be done at the end of a process
assert os.waitpid(child, 0)[1] == 0
assert path.read_bytes() == b"data"
print(path)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="not checked: the platform does not fork")
def test_files_of_a_process_go_with_it(tmp_path: Path) -> None:
    """They are there until it ends, and a process forked from it takes none of them along."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", FILES], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    path = Path(done.stdout.strip())
    assert path.parents[1] == tmp_path
    assert list(tmp_path.iterdir()) == []
