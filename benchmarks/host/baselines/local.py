"""`wavetrim.matmul`, as a program calls it."""

from typing import Literal

import wavetrim
from benchmarks.common.operands import Matrix, Operands
from benchmarks.host.baselines.baseline import Baseline


class LocalMatmul(Baseline):
    """`wavetrim.matmul(a, b, out=c)`.

    Args:
        name: Its name in rows.
        f: Rows of C that the CPU computes.
        devices: GPUs that it may use; None for all.
    """

    def __init__(
        self, name: str, *, f: int | Literal["auto"] = "auto", devices: str | None = None
    ) -> None:
        self.name = name
        self._f = f
        self._devices = devices

    def multiply(self, operands: Operands) -> Matrix:
        """A·B into C."""
        wavetrim.matmul(operands.a, operands.b, out=operands.c, f=self._f, devices=self._devices)
        return operands.c

    def find_f(self, operands: Operands) -> int:
        """F of the plan as it is now."""
        m, n, k = operands.shape
        memory = operands.memory
        plan = wavetrim.plan(
            m, n, k, dtype=operands.dtype, memory=memory, f=self._f, devices=self._devices
        )
        return plan.f
