"""Macros of a launch: part of what an image is, in the cache as in memory; and the cluster a kernel asks for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_roofline.build.nvrtc import Image, compile_source, load_image
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
    """Other values give another image with another path; without them the source does not compile."""
    images = [built(7654321), built(7654322), built(7654321, 2)]
    assert ["7654321" in one.ptx for one in images] == [True, False, True]
    assert ["7654322" in one.ptx for one in images] == [False, True, False]
    assert len({one.path for one in images}) == 3
    assert len(list(cache.glob("*.cubin"))) == 3
    with pytest.raises(CompileError, match='identifier "VALUE" is undefined'):
        compile_source(SOURCE, "sm_90")


def test_macros_survive_the_cache() -> None:
    """An image that comes from the cache, in this process or in another, is equal and has the same macros."""
    first = built(3)
    assert first.defines == (("VALUE", "3"), ("CLUSTER", "1"))
    for again in (built(3), load_image(first.path)):
        assert again == first
        assert again is not None
        assert again.defines == first.defines
    assert compile_source(Source.of_text("k.cu", 'extern "C" __global__ void k() {}'), "sm_90").defines == ()


@pytest.mark.parametrize("changed", [[["VALUE", "4"], ["CLUSTER", "1"]], [], None])
def test_a_record_with_other_macros_is_no_image(changed: object) -> None:
    """Macros in the cache that are not those of the build, or none at all, are damage like any other."""
    first = built(3)
    record = json.loads(first.path.with_suffix(".json").read_text())
    del record["defines"]
    if changed is not None:
        record["defines"] = changed
    first.path.with_suffix(".json").write_text(json.dumps(record))
    assert load_image(first.path) is None
    assert built(3).defines == first.defines


def test_the_cluster_of_a_kernel() -> None:
    """What the kernel of that name was compiled for, not its neighbours; 1 where it asks for none."""
    for cluster in (1, 2, 8, 16):
        image = built(1, cluster)
        assert [image.cluster(name) for name in ("before", "k", "kk")] == [1, cluster, 1]
