"""The protocol's statistics: counts and durations of requests for products, by caller."""

import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import ClientDisconnect

from wavetrim.service.api.v2.model_schemas import (
    DurationFigures,
    ModelFigures,
    ModelStatistics,
    RequestFigures,
)
from wavetrim.service.api.v2.schemas import MODEL_NAME, MODEL_VERSION
from wavetrim.service.tenants.tenant import Tenant

MOST_CALLERS: Final = 1000
"""The most callers whose figures are kept, the latest ones; chosen: tokens may name any number."""

DURATIONS: Final = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")


@dataclass(slots=True)
class Duration:
    """How often something happened, and how long it took in all.

    Attributes:
        count: How often.
        nanoseconds: How long.
    """

    count: int = 0
    nanoseconds: int = 0

    def add(self, seconds: float) -> None:
        """Count it once more."""
        self.count += 1
        self.nanoseconds += round(seconds * 1e9)


@dataclass(slots=True)
class Figures:
    """One caller's requests.

    Attributes:
        products: Products that were computed.
        durations: Durations, by the names in `DURATIONS`.
    """

    products: int = 0
    durations: dict[str, Duration] = field(
        default_factory=lambda: {name: Duration() for name in DURATIONS}
    )


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
        self._callers: OrderedDict[str, Figures] = OrderedDict()

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
            figures.durations["fail"].add(time.perf_counter() - began)
            raise
        figures.products += stopwatch.products
        figures.durations["success"].add(time.perf_counter() - began)
        for name in DURATIONS[2:]:
            figures.durations[name].add(getattr(stopwatch, name))

    def describe(self, tenant: Tenant) -> ModelStatistics:
        """The figures of a caller in the protocol's form; of all callers if it may see all."""
        seen = list(self._callers.values())
        if tenant.sees is not None:
            seen = [one for name, one in self._callers.items() if name == tenant.sees]
        durations = {
            name: DurationFigures(
                count=sum(one.durations[name].count for one in seen),
                ns=sum(one.durations[name].nanoseconds for one in seen),
            )
            for name in DURATIONS
        }
        figures = ModelFigures(
            name=MODEL_NAME,
            version=MODEL_VERSION,
            inference_count=sum(one.products for one in seen),
            execution_count=durations["success"].count,
            inference_stats=RequestFigures(**durations),
        )
        return ModelStatistics(model_stats=[figures])

    def _find(self, caller: str) -> Figures:
        figures = self._callers.get(caller)
        if figures is None:
            figures = self._callers[caller] = Figures()
            if len(self._callers) > MOST_CALLERS:
                self._callers.popitem(last=False)
        else:
            self._callers.move_to_end(caller)
        return figures
