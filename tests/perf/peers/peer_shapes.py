"""What is compared: operators, dtypes and shapes, and what this project promises at each."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_roofline.hardware.dtypes import dtype_of

OF_THE_FASTEST_PEER = 0.99  # least speed of ours, as a share of the fastest peer's
OF_A_LARGE_COPY = 0.98  # the same against a copy that moves more than LARGE
OF_A_LARGE_COPY_PASSED = 1.01  # where PASSES, which compiles to one kernel, is itself faster than that copy
PASSES = "torch.compile"
OF_A_COPY_OF_FEW_LONG_ROWS = 0.95  # 32 rows do not occupy every SM alike
OF_TWO_LAUNCHES = 1.2  # of an add and an RMSNorm apart, from MANY_ROWS on; by bytes moved 1.25
MANY_ROWS = 8192
LARGE = 100e6  # bytes, read and written
FEW_LONG_ROWS = (32, 152064)

HIDDEN = ((1, 3584), (8192, 3584), (4096, 65536))
TABLE: tuple[tuple[str, tuple[str, ...], tuple[tuple[int, int], ...]], ...] = (
    ("rmsnorm", ("float32",), ((1, 3584), (32, 3584), (2048, 3584), (8192, 3584), (16384, 3584))),
    ("rmsnorm", ("float32",), ((32768, 4096), (8192, 16384), (4096, 65536))),
    ("softmax", ("float32",), ((1, 2048), (32, 2048), (2048, 2048), (8192, 2048), (16384, 2048))),
    ("softmax", ("float32",), ((114688, 4096), FEW_LONG_ROWS, (4096, 32768), (4096, 152064))),
    ("rmsnorm", ("float16", "bfloat16"), HIDDEN),
    ("softmax", ("float16", "bfloat16"), ((1, 2048), (8192, 2048), FEW_LONG_ROWS, (4096, 152064))),
    ("add_rmsnorm", ("float32", "bfloat16"), ((1, 3584), (32, 3584), (2048, 3584), (8192, 3584), (16384, 3584))),
)


@dataclass(frozen=True)
class Case:
    """One operator at one shape and dtype."""

    operator: str
    dtype: str
    rows: int
    columns: int

    def __str__(self) -> str:
        return f"{self.operator}-{self.dtype}-{self.rows}x{self.columns}"

    @property
    def copied(self) -> int:
        """Bytes that a copy of the operator's rows reads and writes."""
        arrays = 4 if self.operator == "add_rmsnorm" else 2
        return arrays * dtype_of(self.dtype).itemsize * self.rows * self.columns

    def least_of_copy(self, passed: bool = False) -> float | None:
        """Least speed of ours as a share of the copy's; None where nothing is promised.

        ``passed``: the peer that PASSES names is faster than the copy.
        """
        if (self.rows, self.columns) == FEW_LONG_ROWS:
            return OF_A_COPY_OF_FEW_LONG_ROWS
        if self.copied <= LARGE:
            return None
        return OF_A_LARGE_COPY_PASSED if passed else OF_A_LARGE_COPY

    @property
    def least_of_own(self) -> float:
        """Least speed of ours as a share of the two separate launches'."""
        return OF_TWO_LAUNCHES if self.rows >= MANY_ROWS else 1.0


CASES = tuple(
    Case(operator, dtype, rows, columns)
    for operator, dtypes, shapes in TABLE
    for dtype in dtypes
    for rows, columns in shapes
)
