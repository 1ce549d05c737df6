"""The message that ends a run: a success, also one of several parts, or a failure in words."""

import logging
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from wavetrim.scheduler.errors import (
    ExecutionCancelled,
    ExecutionError,
    FieldError,
    NodeLost,
    OperandGone,
    VerificationFailed,
)

logger = logging.getLogger(__name__)

Figures: TypeAlias = dict[str, Any]
"""Timings, a prediction or the outcome of a check, as in a message."""

GONE: Final = "gone"
"""Kind of failure after which an operand must be sent to a node again."""


def make_success(
    plan: dict[str, Any], timings: Figures, verification: Figures | None
) -> dict[str, Any]:
    """The message of a product that was computed, without the job's id."""
    return {
        "type": "succeeded", "plan": plan, "timings": timings, "verification": verification,
    }  # fmt: skip


def merge_successes(events: Sequence[dict[str, Any]], *, seconds: float) -> dict[str, Any]:
    """The success of a product, which took `seconds`, by those of its blocks, in their order."""
    timings = add_figures([event["timings"] for event in events])
    return make_success(
        _merge_plans([event["plan"] for event in events]),
        {**timings, "total_seconds": seconds},
        merge_verifications([event["verification"] for event in events]),
    )


def _merge_plans(plans: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One plan for consecutive rows that were planned apart: counts and seconds are added."""
    merged = dict(plans[0])
    for name in ("f", "gpu_rows", "waves", "waves_gpu_only"):
        if name in merged:
            merged[name] = sum(plan[name] for plan in plans)
    if "resident" in merged:
        merged["resident"] = all(plan.get("resident") for plan in plans)
    if "devices" in merged:
        merged["devices"] = [one for plan in plans for one in plan["devices"]]
    merged["predicted"] = add_figures([plan["predicted"] for plan in plans])
    return merged


def merge_verifications(verifications: Sequence[Figures | None]) -> Figures | None:
    """One outcome for products or rows that were checked apart; None where they were not."""
    checked = [one for one in verifications if one is not None]
    if not checked:
        return None
    used = {name for one in checked for name in (one["recomputed_on"] or "").split(" and ")}
    sums = ("elements_checked", "elements_compared", "wrong_rows", "seconds")
    return {
        **max(checked, key=lambda one: one["max_error"]),
        **{name: sum(one[name] for one in checked) for name in sums},
        "passed": all(one["passed"] for one in checked),
        "detectable_change": max(one["detectable_change"] for one in checked),
        "caught_probability": min(one["caught_probability"] for one in checked),
        "recomputed_on": " and ".join(sorted(used - {""})) or None,
    }


def add_figures(figures: Sequence[Figures]) -> Figures:
    """The sums of figures of the same names; None where one was not measured."""
    names = dict.fromkeys(name for one in figures for name in one)
    found = {name: [one[name] for one in figures if name in one] for name in names}
    return {name: None if None in values else sum(values) for name, values in found.items()}


def describe_failure(error: Exception) -> dict[str, Any]:
    """The message of a run that ended with an error.

    Another try may succeed, at last on the CPU alone, unless the request itself is wrong.
    """
    poisoned = False
    match error:
        case ExecutionCancelled():
            return {"type": "cancelled"}
        case FieldError():
            kind, text = "plan", str(error)
        case NodeLost():
            kind, text = "node", str(error)
        case OperandGone():
            kind, text = GONE, str(error)
        case VerificationFailed():
            kind, text = "verification", str(error)
        case MemoryError():
            kind, text = "memory", f"not enough memory for the product: {error}"
        case ExecutionError():
            kind, text, poisoned = "device", str(error), error.poisoned
        case _:
            kind, text = "internal", f"{type(error).__name__} in the engine; see its log"
    if kind not in ("plan", "node", GONE):
        logger.error("a run failed", exc_info=error)
    return {
        "type": "failed",
        "kind": kind,
        "message": text,
        "retryable": kind != "plan",
        "poisoned": poisoned,
    }
