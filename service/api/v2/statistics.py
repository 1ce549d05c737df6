"""The protocol's statistics: counts and durations of requests for products, by caller."""

import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from starlette.requests import ClientDisconnect

from wavetrim.service.api.v2.schemas import (
    DurationFigures,
    ModelFigures,
    ModelStatistics,
    RequestFigures,
)
from wavetrim.service.tenants.tenant import Tenant

MOST_CALLERS: Final = 1000
"""The most callers whose figures are kept, the latest ones; chosen: tokens may name any number."""


@dataclass(slots=True)
class Stopwatch:
    """The seconds of one request.

    Attributes:
        products: How many products it asks for.
        queue: How long they waited.
        compute_input: Time until the tensors were in memory.
        compute_infer: Time from there to the result, without `queue`.
        compute_output: Time from there until the answer could be sent.
    """

    products: int = 1
    queue: float = 0.0
    compute_input: float = 0.0
    compute_infer: float = 0.0
    compute_output: float = 0.0


class InferStatistics:
    """Counts requests. To be used from one event loop."""

    def __init__(self) -> None:
        self._callers: OrderedDict[str, Counter[str]] = OrderedDict()

    @contextmanager
    def count(self, tenant: Tenant) -> Iterator[Stopwatch]:
        """Count the request that the block answers; a caller that leaves is no failure."""
        counts = self._callers.setdefault(tenant.name, Counter())
        self._callers.move_to_end(tenant.name)
        if len(self._callers) > MOST_CALLERS:
            self._callers.popitem(last=False)
        stopwatch, began = Stopwatch(), time.perf_counter()
        try:
            yield stopwatch
        except ClientDisconnect:
            raise
        except Exception:
            _add(counts, "fail", time.perf_counter() - began)
            raise
        counts["products"] += stopwatch.products
        _add(counts, "success", time.perf_counter() - began)
        for name in ("queue", "compute_input", "compute_infer", "compute_output"):
            _add(counts, name, getattr(stopwatch, name))

    def describe(self, tenant: Tenant) -> ModelStatistics:
        """The figures of a caller in the protocol's form; of all callers if it may see all."""
        total = Counter[str]()
        for name, counts in self._callers.items():
            if tenant.sees in (None, name):
                total += counts
        stats = {
            part: DurationFigures(count=total[part], ns=total[f"{part} ns"])
            for part in RequestFigures.model_fields
        }
        figures = ModelFigures(
            inference_count=total["products"],
            execution_count=total["success"],
            inference_stats=RequestFigures(**stats),
        )
        return ModelStatistics(model_stats=[figures])


def _add(counts: Counter[str], part: str, seconds: float) -> None:
    """Count a part of a request once more."""
    counts[part] += 1
    counts[f"{part} ns"] += round(seconds * 1e9)
