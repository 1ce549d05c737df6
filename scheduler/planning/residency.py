"""Residency: when a B is worth keeping on the GPUs. Pure but for what it knows of earlier products.

The rule is that of the ski rental problem, rent or buy: each product that copies B in notes what it
would have saved with B there. Once these savings add up to the time to fetch B, it is fetched. So
a B that comes once is never fetched. Compared with knowing in advance how many products come, those
of one B lose at most about the time to fetch it.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from wavetrim.scheduler.planning.plan import Plan

REMEMBERED: Final = 1024
"""Operands whose savings are remembered, those of the newest products; chosen."""


class Savings:
    """What products would have saved with B on the GPUs, summed by B. Thread-safe."""

    def __init__(self) -> None:
        self._savings: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def decide(self, key: str, plain: Plan, resident: Plan, missing: Sequence[int]) -> bool:
        """Whether a product is computed with B resident, which is then fetched where it is missing.

        Args:
            key: Key of B.
            plain: The product's plan if B is copied in.
            resident: Its plan if B is on the GPUs.
            missing: Positions of the resident plan's GPUs that do not have B.
        """
        # Uncorrected: the two are runs of different kinds, and few runs have corrected one of them.
        saved_seconds = plain.uncorrected.total_seconds - resident.uncorrected.total_seconds
        if not resident.gpu_parts or saved_seconds <= 0:
            return False
        if not missing:
            return True
        fetch_seconds = max(find_fetch_seconds(plain, position) for position in missing)
        with self._lock:
            earlier_seconds = self._savings.pop(key, None)
            saved_seconds += earlier_seconds or 0.0
            if earlier_seconds is not None and saved_seconds >= fetch_seconds:
                return True
            self._savings[key] = saved_seconds
            if len(self._savings) > REMEMBERED:
                self._savings.popitem(last=False)
        return False


def find_fetch_seconds(plan: Plan, position: int) -> float:
    """Seconds to copy all of B to one GPU, over its own link."""
    problem = plan.problem
    link = plan.profile.gpus[position].find_link(problem.memory)
    return problem.b_bytes / (link.in_gbytes_per_second * 1e9)
