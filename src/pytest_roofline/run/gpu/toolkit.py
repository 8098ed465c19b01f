"""Where a CUDA toolkit may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

TOOLKIT = "/usr/local/cuda"


def toolkits(environ: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """What names the place, and the place, None where nothing is named."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        yield f"${name}", environ.get(name)
    yield TOOLKIT, TOOLKIT
