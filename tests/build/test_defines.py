"""Macros of a launch: part of what an image is, in the cache as in memory; and the cluster a kernel asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_roofline.build.image import read_image
from pytest_roofline.build.nvrtc import Image, compile_source
from pytest_roofline.build.source import Source
from pytest_roofline.errors import CompileError

SOURCE = Source.of_text(
    "some.cu",
    """
#if CLUSTER > 1
#define DIMS __cluster_dims__(CLUSTER, 1, 1)
#else
#define DIMS
#endif
extern "C" __global__ void before(int* x) { x[2] = VALUE; }
extern "C" __global__ void DIMS k(int* x) { x[blockIdx.x] = VALUE; }
extern "C" __global__ void kk(int* x) { x[1] = VALUE; }
""",
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTEST_ROOFLINE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def built(value: int, cluster: int = 1) -> Image:
    return compile_source(SOURCE, "sm_90", defines=(("VALUE", str(value)), ("CLUSTER", str(cluster))))


def test_macros_reach_the_compiler_and_the_key(cache: Path) -> None:
    """Other values give another image with another key; without them the source does not compile."""
    images = [built(7654321), built(7654322), built(7654321, 2)]
    assert ["7654321" in one.ptx for one in images] == [True, False, True]
    assert ["7654322" in one.ptx for one in images] == [False, True, False]
    assert len({one.key for one in images}) == 3
    assert {one.key for one in images} <= {path.name for path in cache.rglob("*")}
    with pytest.raises(CompileError, match='identifier "VALUE" is undefined'):
        compile_source(SOURCE, "sm_90")


def test_macros_survive_the_cache() -> None:
    """An image that comes from the cache, in this process or in another, is equal and has the same macros."""
    first = built(3)
    assert first.defines == (("VALUE", "3"), ("CLUSTER", "1"))
    for again in (built(3), read_image(first.file)):
        assert again == first
        assert again is not None
        assert again.defines == first.defines
    assert compile_source(Source.of_text("k.cu", 'extern "C" __global__ void k() {}'), "sm_90").defines == ()


def test_the_cluster_of_a_kernel() -> None:
    """What the kernel of that name was compiled for, not its neighbours; 1 where it asks for none."""
    for cluster in (1, 2, 8, 16):
        image = built(1, cluster)
        assert [image.cluster(name) for name in ("before", "k", "kk")] == [1, cluster, 1]
