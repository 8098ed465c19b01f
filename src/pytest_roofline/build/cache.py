"""One store on disk for what takes long to make: compiled images, counts, modelled times.

Entries are found by a hex digest of everything that can change them. One is written beside its place and renamed, so
that other processes see all of it or nothing, and begins with a digest of its content: what was cut or changed is as if
it were absent. The least recently used are pushed out where the store would pass its limit.

The folder is ``$PYTEST_ROOFLINE_CACHE``, else that of the platform for caches; the limit is 512 MiB, or as many as
``$PYTEST_ROOFLINE_CACHE_SIZE`` says, and 0 keeps nothing on disk. Where the folder can't be written that is said once,
and entries are kept in memory for as long as the process lives.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path

import platformdirs

from ..errors import UnknownNameError

FOLDER, SIZE = "PYTEST_ROOFLINE_CACHE", "PYTEST_ROOFLINE_CACHE_SIZE"
MIB = 2**20
DEFAULT_SIZE = 512  # MiB
SHARE = 8  # the folder is looked through after each eighth of the limit, and one is then left free
KEY = re.compile(r"[0-9a-f]{64}(-[a-z]+)?")
PARTIAL = "partial-"  # files that are being written
STALE = 3600  # seconds after which one that was not renamed was left behind
GROWN = "grown"  # a file with one byte for each KiB written since the folder was looked through
UNIT = 1024


class CacheWarning(UserWarning):
    """The cache can't be used; what it would hold is made anew in each process."""


class Store:
    """Bytes by key in ``folder``, of ``limit`` bytes together."""

    def __init__(self, folder: Path, limit: int = DEFAULT_SIZE * MIB) -> None:
        self.folder, self.limit = folder, limit
        self._on_disk = limit > 0
        self._memory: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """What was put there; None where it is absent or damaged."""
        if (data := self._memory.get(key)) is not None:
            return data
        path = self._path(key)
        try:
            data = unsealed(path.read_bytes(), key)
        except OSError:
            return None
        if data is not None:
            with contextlib.suppress(OSError):  # of another user's folder it stays as old as it was
                os.utime(path)
        return data

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        if self._on_disk:
            try:
                self._write(path, sealed(data, key))
            except OSError as error:
                self._on_disk = False
                self._say(error)
            else:
                return
        self._memory[key] = data

    def _path(self, key: str) -> Path:
        if not KEY.fullmatch(key):
            raise ValueError(f"{key!r} is not a key: 64 hex digits, and a dash and a word if there are several of them")
        return self.folder / key

    def _write(self, path: Path, data: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=self.folder, prefix=PARTIAL)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(partial).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(partial).unlink()
            raise
        self._grow(len(data))

    def _grow(self, size: int) -> None:
        """Note what was written, together with all other processes; look through the folder where that is much."""
        grown = self.folder / GROWN
        new = not grown.exists()
        with grown.open("ab") as file:
            file.write(b"+" * -(-size // UNIT))
            file.flush()
            much = os.fstat(file.fileno()).st_size * UNIT > self.limit // SHARE
        if new or much:
            self._look_through()
            os.truncate(grown, 0)

    def _look_through(self) -> None:
        """Remove what interrupted writes left, and the least recently used entries until a share is free."""
        entries = []
        with os.scandir(self.folder) as found:
            for one in found:
                with contextlib.suppress(OSError):  # another process was first
                    stat = one.stat()
                    if KEY.fullmatch(one.name):
                        entries.append((stat.st_mtime_ns, stat.st_size, one.path))
                    elif one.name.startswith(PARTIAL) and stat.st_mtime < time.time() - STALE:
                        Path(one.path).unlink()
        over = sum(size for _, size, _ in entries) - (self.limit - self.limit // SHARE)
        for _, size, path in sorted(entries):
            if over <= 0:
                break
            with contextlib.suppress(OSError):
                Path(path).unlink()
            over -= size

    def _say(self, error: OSError) -> None:
        text = (
            f"the cache can't be written to {self.folder} ({error}): what it would hold is made anew in each process; "
            f"set {FOLDER} to a folder that can be written"
        )
        warnings.warn(text, CacheWarning, stacklevel=4)


def sealed(data: bytes, key: str = "") -> bytes:
    """``data`` behind a digest of it, and of its key."""
    return _digest(data, key) + b"\n" + data


def unsealed(raw: bytes, key: str = "") -> bytes | None:
    """What :func:`sealed` was given; None if it has changed since, or had another key."""
    digest, _, data = raw.partition(b"\n")
    return data if digest == _digest(data, key) else None


def _digest(data: bytes, key: str) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + data).hexdigest().encode()


def cache_directory() -> Path:
    """Where everything lies that is kept from run to run."""
    if named := os.environ.get(FOLDER):
        return Path(named).resolve()
    return platformdirs.user_cache_path("pytest-roofline", appauthor=False)


def limit() -> int:
    """Bytes that the store may hold. Errors: :class:`UnknownNameError` for a size that is no number of MiB."""
    given = os.environ.get(SIZE) or str(DEFAULT_SIZE)
    if not given.isascii() or not given.isdigit():
        raise UnknownNameError(f"{SIZE} is {given!r}; set it to a whole number of MiB, 0 to keep nothing on disk")
    return int(given) * MIB


def store() -> Store:
    """The store of this process."""
    return _store(cache_directory() / "store", limit())


@cache
def _store(folder: Path, limit: int) -> Store:
    return Store(folder, limit)


def process_file(stem: str, suffix: str, data: bytes) -> Path:
    """A file of this process with ``data``, for tools that take files only; it goes when the process ends.

    Nothing that is kept is given to them: another process may push it out.
    """
    path = _process_folder(os.getpid()) / f"{stem}-{hashlib.sha256(data).hexdigest()}{suffix}"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return path


@cache
def _process_folder(pid: int) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="pytest-roofline-"))

    def remove() -> None:
        if os.getpid() == pid:  # not a process that was forked from it
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
