"""The protocol's statistics: counts and durations of requests for products, by caller."""

import time
from collections import OrderedDict
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
        self._callers: OrderedDict[str, ModelFigures] = OrderedDict()

    @contextmanager
    def count(self, tenant: Tenant) -> Iterator[Stopwatch]:
        """Count the request that the block answers; a caller that leaves is no failure."""
        figures = self._find(tenant.name)
        stopwatch, began = Stopwatch(), time.perf_counter()
        try:
            yield stopwatch
        except ClientDisconnect:
            raise
        except Exception:
            _add(figures.inference_stats, "fail", time.perf_counter() - began)
            raise
        figures.inference_count += stopwatch.products
        figures.execution_count += 1
        _add(figures.inference_stats, "success", time.perf_counter() - began)
        for name in ("queue", "compute_input", "compute_infer", "compute_output"):
            _add(figures.inference_stats, name, getattr(stopwatch, name))

    def describe(self, tenant: Tenant) -> ModelStatistics:
        """The figures of a caller in the protocol's form; of all callers if it may see all."""
        total = ModelFigures()
        for name, one in self._callers.items():
            if tenant.sees not in (None, name):
                continue
            total.inference_count += one.inference_count
            total.execution_count += one.execution_count
            for part in RequestFigures.model_fields:
                into, figures = (getattr(x.inference_stats, part) for x in (total, one))
                into.count += figures.count
                into.ns += figures.ns
        return ModelStatistics(model_stats=[total])

    def _find(self, caller: str) -> ModelFigures:
        figures = self._callers.get(caller)
        if figures is None:
            figures = self._callers[caller] = ModelFigures()
            if len(self._callers) > MOST_CALLERS:
                self._callers.popitem(last=False)
        else:
            self._callers.move_to_end(caller)
        return figures


def _add(figures: RequestFigures, part: str, seconds: float) -> None:
    """Count a part of a request once more."""
    duration: DurationFigures = getattr(figures, part)
    duration.count += 1
    duration.ns += round(seconds * 1e9)
