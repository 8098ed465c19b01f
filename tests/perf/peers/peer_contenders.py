"""The peers, each called by the lowest public function of its package that has no autograd in it.

A peer maps the operators it has to functions of one argument: the tensors of a place by name ("x", "w", "r", "y",
"h"). They return the outputs by name, the place's own tensors where the package takes an ``out``, new ones where it
does not: torch's caching allocator then gives a block that is already there, without a call of the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

Tensors = Mapping[str, Any]
Run = Callable[[Tensors], Tensors]


@dataclass(frozen=True)
class Call:
    """How a peer computes an operator.

    ``variants`` do the same with other launch parameters: the fastest is kept. ``allocates`` says that the outputs are
    new tensors. ``before`` runs untimed ahead of each sample, instead of the poison in the outputs. ``dtypes`` are
    those in which the package gives the output in the input's own dtype.
    """

    variants: tuple[Run, ...]
    allocates: bool = True
    before: Callable[[Tensors], None] | None = None
    dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Peer:
    """A package: its name in the table, and what makes its calls for ``columns`` columns (and imports it)."""

    name: str
    calls: Callable[[int, float], Mapping[str, Call]]


def torch_functions(eps: float) -> dict[str, Run]:
    import torch
    from torch.nn.functional import rms_norm

    def rmsnorm(t: Tensors) -> Tensors:
        return {"y": rms_norm(t["x"], t["w"].shape, t["w"], eps)}

    def softmax(t: Tensors) -> Tensors:
        return {"y": torch.softmax(t["x"], -1)}

    def add_rmsnorm(t: Tensors) -> Tensors:
        h = t["x"] + t["r"]
        return {"h": h, "y": rms_norm(h, t["w"].shape, t["w"], eps)}

    return {"rmsnorm": rmsnorm, "softmax": softmax, "add_rmsnorm": add_rmsnorm}


def eager(columns: int, eps: float) -> dict[str, Call]:
    return {name: Call((run,)) for name, run in torch_functions(eps).items()}


COMPILED: dict[float, dict[str, Call]] = {}  # by eps: made once, for compiled code is kept with the function


def compiled(columns: int, eps: float) -> dict[str, Call]:
    import torch
    from torch.nn.functional import rms_norm

    if eps in COMPILED:
        return COMPILED[eps]
    torch._dynamo.config.recompile_limit = 1024  # one a shape and dtype
    torch._dynamo.config.accumulated_recompile_limit = 4096

    def add_rms(x: Any, r: Any, w: Any) -> Any:
        h = x + r
        return h, rms_norm(h, w.shape, w, eps)

    norm = torch.compile(lambda x, w: rms_norm(x, w.shape, w, eps), dynamic=False)
    soft = torch.compile(lambda x: torch.softmax(x, -1), dynamic=False)
    add = torch.compile(add_rms, dynamic=False)
    COMPILED[eps] = {
        "rmsnorm": Call((lambda t: {"y": norm(t["x"], t["w"])},)),
        "softmax": Call((lambda t: {"y": soft(t["x"])},)),
        "add_rmsnorm": Call((lambda t: dict(zip(("h", "y"), add(t["x"], t["r"], t["w"]), strict=True)),)),
    }
    return COMPILED[eps]


def own_triton(columns: int, eps: float) -> dict[str, Call]:
    import peer_triton as kernels

    tried = kernels.warps(columns)
    calls = {
        "rmsnorm": Call(tuple(kernels.rmsnorm(n, eps) for n in tried), allocates=False),
        "softmax": Call(tuple(kernels.softmax(n) for n in tried), allocates=False),
    }
    if columns <= kernels.IN_REGISTERS:
        calls["add_rmsnorm"] = Call(tuple(kernels.add_rmsnorm(n, eps) for n in tried), allocates=False)
    return calls


def liger(columns: int, eps: float) -> dict[str, Call]:
    """Casting mode "gemma": all in float32, one rounding at the end, as everybody else here computes it."""
    from liger_kernel.ops.fused_add_rms_norm import fused_add_rms_norm_forward
    from liger_kernel.ops.rms_norm import rms_norm_forward
    from liger_kernel.ops.softmax import _softmax_forward

    def rmsnorm(t: Tensors) -> Tensors:
        return {"y": rms_norm_forward(t["x"], t["w"], eps, 0.0, "gemma", None)[0]}

    def softmax(t: Tensors) -> Tensors:
        return {"y": _softmax_forward(t["x"])[0]}

    def add_rmsnorm(t: Tensors) -> Tensors:
        y, h, *_ = fused_add_rms_norm_forward(t["x"], t["r"], t["w"], eps, 0.0, "gemma")
        return {"h": h, "y": y}

    return {"rmsnorm": Call((rmsnorm,)), "softmax": Call((softmax,)), "add_rmsnorm": Call((add_rmsnorm,))}


def quack(columns: int, eps: float) -> dict[str, Call]:
    from quack.rmsnorm import rmsnorm_fwd
    from quack.softmax import softmax_fwd

    def rmsnorm(t: Tensors) -> Tensors:
        return {"y": rmsnorm_fwd(t["x"], t["w"], eps=eps)[0]}

    def softmax(t: Tensors) -> Tensors:
        return {"y": softmax_fwd(t["x"])}

    def add_rmsnorm(t: Tensors) -> Tensors:
        y, h, _ = rmsnorm_fwd(t["x"], t["w"], residual=t["r"], eps=eps)
        return {"h": h, "y": y}

    return {"rmsnorm": Call((rmsnorm,)), "softmax": Call((softmax,)), "add_rmsnorm": Call((add_rmsnorm,))}


def flashinfer(columns: int, eps: float) -> dict[str, Call]:
    """Softmax of 16-bit input comes out as float32 after a conversion, which is another operator: float32 only."""
    from flashinfer.norm import fused_add_rmsnorm
    from flashinfer.norm import rmsnorm as norm
    from flashinfer.sampling import softmax as soft

    def rmsnorm(t: Tensors) -> Tensors:
        norm(t["x"], t["w"], eps, out=t["y"])
        return t

    def softmax(t: Tensors) -> Tensors:
        return {"y": soft(t["x"])}

    def fill(t: Tensors) -> None:
        # It works in place: residual becomes h, input becomes y. So the place's outputs get the inputs before each
        # sample, and those stay as they are. The same bytes are read and written, over half the memory.
        t["y"].copy_(t["x"])
        t["h"].copy_(t["r"])

    def add_rmsnorm(t: Tensors) -> Tensors:
        fused_add_rmsnorm(t["y"], t["h"], t["w"], eps)
        return t

    return {
        "rmsnorm": Call((rmsnorm,), allocates=False),
        "softmax": Call((softmax,), dtypes=("float32",)),
        "add_rmsnorm": Call((add_rmsnorm,), allocates=False, before=fill),
    }


PEERS = (
    Peer("torch eager", eager),
    Peer("torch.compile", compiled),
    Peer("triton", own_triton),
    Peer("liger", liger),
    Peer("quack", quack),
    Peer("flashinfer", flashinfer),
)
PACKAGES = (
    "torch",
    "triton",
    "liger-kernel",
    "quack-kernels",
    "flashinfer-python",
    "nvidia-cutlass-dsl",
    "apache-tvm-ffi",
    "numpy",
)


def versions() -> dict[str, str]:
    """Versions of the packages; "absent" where there is none."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "absent"
    return found
