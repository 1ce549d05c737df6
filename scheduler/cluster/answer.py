"""One answer for a product whose rows were computed in blocks: plans, timings and checks as one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def merge_events(events: Sequence[Mapping[str, Any]], *, seconds: float) -> dict[str, Any]:
    """The success of a product by those of its blocks.

    Args:
        events: The messages of success, in the order of the rows.
        seconds: Seconds of the whole product.
    """
    return {
        "type": "succeeded",
        "plan": merge_plans([event["plan"] for event in events]),
        "timings": {**_sum_all(event["timings"] for event in events), "total_seconds": seconds},
        "verification": merge_verifications([event["verification"] for event in events]),
    }


def merge_plans(plans: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One plan for consecutive rows that were planned apart: counts and seconds are added."""
    merged = dict(plans[0])
    for name in ("f", "gpu_rows", "waves", "waves_gpu_only"):
        if name in merged:
            merged[name] = sum(plan[name] for plan in plans)
    if "resident" in merged:
        merged["resident"] = all(plan.get("resident") for plan in plans)
    if "devices" in merged:
        merged["devices"] = [one for plan in plans for one in plan["devices"]]
    merged["predicted"] = _sum_all(plan["predicted"] for plan in plans)
    return merged


def merge_verifications(
    verifications: Sequence[Mapping[str, Any] | None],
) -> dict[str, Any] | None:
    """One outcome for consecutive rows that were checked apart; None where they were not."""
    checked = [one for one in verifications if one is not None]
    if not checked:
        return None
    worst = max(checked, key=lambda one: one["max_error"])
    recomputed = sorted({one["recomputed_on"] for one in checked if one["recomputed_on"]})
    sums = ("elements_checked", "elements_compared", "wrong_rows", "seconds")
    return {
        **worst,
        **{name: sum(one[name] for one in checked) for name in sums},
        "detectable_change": max(one["detectable_change"] for one in checked),
        "caught_probability": min(one["caught_probability"] for one in checked),
        "recomputed_on": " and ".join(recomputed) or None,
    }


def _sum_all(figures: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums of figures of the same names; None counts as nothing."""
    summed: dict[str, Any] = {}
    for one in figures:
        for name, value in one.items():
            summed[name] = summed.get(name) or 0
            summed[name] += value or 0
    return summed
