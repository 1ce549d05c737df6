"""`wavetrim.matmul`, as a program calls it."""

from typing import Literal

import wavetrim
from benchmarks.common.operands import Matrix, Operands
from benchmarks.host.baselines.baseline import Baseline


class LocalMatmul(Baseline):
    """`wavetrim.matmul(a, b, out=c)` at its own plan, or with F = M."""

    def __init__(self, name: str, *, all_on_cpu: bool = False) -> None:
        self.name = name
        self._all_on_cpu = all_on_cpu

    def multiply(self, operands: Operands) -> Matrix:
        """A·B into C."""
        device: Literal["cpu"] | None = "cpu" if self._all_on_cpu else None
        wavetrim.matmul(operands.a, operands.b, out=operands.c, device=device)
        return operands.c

    def find_f(self, operands: Operands) -> int:
        """F of the plan as it is now."""
        m, n, k = operands.shape
        if self._all_on_cpu:
            return m
        return wavetrim.plan(m, n, k, dtype=operands.dtype, memory=operands.memory).f
