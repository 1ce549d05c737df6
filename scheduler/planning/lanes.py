"""Lanes: which of a machine's devices work at which product, while several wait. Pure.

A lane is a set of devices that work at one product: some GPUs, the CPU, or both. Each product that
waits has choices: lanes, and the seconds that it takes there.

- List scheduling: products take their lanes in order, each the one where it ends first, counting
  what the lane's devices must do before. So a small product may go to the CPU.
- Throughput first: a product takes fewer GPUs while the remaining ones have enough to do with what
  else waits. Of two GPUs it takes one if two products of a size wait, and both if it waits alone.
- Reservations (conservative backfilling, as in batch schedulers): a product that must wait for
  devices has them reserved from the time at which all of them are free. A later product may use
  them before only if it ends by then. So no product is delayed by a later one, and its wait is
  bounded by the time of those before it.
- Resident operands: of the free GPUs a product takes the one that has its B, if it ends sooner
  there. It does not wait for that GPU while another is free, which fetches B in time, so that later
  products find it on both.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from wavetrim.scheduler.errors import PlanError

if TYPE_CHECKING:
    from wavetrim.scheduler.planning.plan import Plan

Lane: TypeAlias = frozenset[int]
"""The devices that work at one product: positions of GPUs in the machine's profile, and `CPU`."""

CPU: Final = -1
"""The CPU's number in a lane."""

WAIT_GAIN: Final = 0.1
"""Share of its time that a product must save by waiting while other devices are free. Chosen: runs
differ from their predictions by about as much."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A lane that a product may take.

    Attributes:
        lane: Its devices; none for a product so small that the calling thread computes it.
        seconds: What the product should take there.
        settled_seconds: The same once its B is resident there; infinite if no GPU has it.
        gpus: Number of its GPUs.
    """

    lane: Lane
    seconds: float
    settled_seconds: float = math.inf
    gpus: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gpus", len(self.lane) - (CPU in self.lane))


class Place(NamedTuple):
    """A product's place in the schedule.

    Attributes:
        choice: Its lane.
        begins: Seconds from now until its devices are free together; 0 if it may begin now.
    """

    choice: Choice
    begins: float

    @property
    def ends(self) -> float:
        """Seconds from now until it should be done."""
        return self.begins + self.choice.seconds


def place_products(
    waiting: Sequence[Sequence[Choice]],
    busy: Mapping[int, float],
    gpus: int,
    *,
    behind: int = 0,
) -> tuple[Place, ...]:
    """Choose for each product where it is computed, and whether it begins now.

    Args:
        waiting: The choices of each product that waits, at least one, in the products' order.
        busy: Seconds until each device is free; those that are free now may be left out.
        gpus: GPUs of the machine.
        behind: Further products that wait; each counts as one that takes the mean of these.

    Returns:
        A place for each product. Those that begin now have no device in common, and none that is
        busy.
    """
    timetable = _Timetable(busy)
    work = [_find_work(choices) for choices in waiting]
    all_work, places = sum(work) * (1 + behind / max(1, len(work))), []
    for choices, own in zip(waiting, work, strict=True):
        place = _choose(_narrow(choices, all_work - own, gpus), timetable)
        timetable.add(place)
        places.append(place)
    return tuple(places)


class _Timetable:
    """When each device is free, as products are placed."""

    def __init__(self, busy: Mapping[int, float]) -> None:
        self._taken = {device for device, seconds in busy.items() if seconds > 0}
        self._free_at = dict(busy)
        self._reserved_at: dict[int, float] = {}

    def find_begin(self, choice: Choice) -> float:
        """When a product may begin: now if that delays no placed product, else after them."""
        lane, reserved_at = choice.lane, self._reserved_at
        if self._taken.isdisjoint(lane):
            for device in lane:
                if device in reserved_at and choice.seconds > reserved_at[device]:
                    break
            else:
                return 0.0
        return max([self._free_at.get(device, 0.0) for device in lane])

    def add(self, place: Place) -> None:
        """Place a product."""
        for device in place.choice.lane:
            self._free_at[device] = max(self._free_at.get(device, 0.0), place.ends)
            if place.begins > 0:
                begin = self._reserved_at.get(device, math.inf)
                self._reserved_at[device] = min(begin, place.begins)
            else:
                self._taken.add(device)


def _choose(choices: Iterable[Choice], timetable: _Timetable) -> Place:
    """The place where a product ends first; of equal ones that with fewer devices.

    If it could begin at once elsewhere, waiting must save `WAIT_GAIN`.
    """
    best = at_once = None
    for choice in choices:
        place = Place(choice, timetable.find_begin(choice))
        if best is None or _ends_before(place, best):
            best = place
        if place.begins <= 0 and (at_once is None or _ends_before(place, at_once)):
            at_once = place
    assert best is not None, "a product has choices"
    if at_once is None:
        return best
    free = at_once.choice
    most_seconds = (1 - WAIT_GAIN) * min(free.seconds, free.settled_seconds)
    return best if best.ends <= most_seconds else at_once


def _ends_before(place: Place, other: Place) -> bool:
    ends, other_ends = place.ends, other.ends
    return ends < other_ends or (
        ends == other_ends and len(place.choice.lane) < len(other.choice.lane)
    )


def _find_work(choices: Iterable[Choice]) -> float:
    """Seconds that a product would take on one GPU; 0 if none can compute it."""
    return min([one.seconds for one in choices if one.gpus == 1], default=0.0)


def _narrow(choices: Sequence[Choice], other_seconds: float, gpus: int) -> Sequence[Choice]:
    """The choices that leave the other GPUs enough to do.

    Args:
        choices: All choices of a product.
        other_seconds: What else waits, in seconds of one GPU.
        gpus: GPUs of the machine.
    """
    least_seconds: dict[int, float] = {}
    for one in choices:
        if one.gpus:
            least_seconds[one.gpus] = min(least_seconds.get(one.gpus, math.inf), one.seconds)
    if len(least_seconds) < 2:
        return choices
    for count in sorted(least_seconds):
        if (gpus - count) * least_seconds[count] <= other_seconds:
            return [one for one in choices if one.gpus <= count]
    return choices


def list_choices(
    gpus: Sequence[tuple[int, str]],
    choose: Callable[[Lane, bool], "Plan"],
    resident: Lane = frozenset(),
) -> tuple[Choice, ...]:
    """The lanes that a product may take on a machine; none if its options can be met nowhere.

    GPUs are taken in groups of one, two, four and so on, and all together, each group with and
    without the CPU. Groups of equal GPUs are planned for once.

    Args:
        gpus: Position and name of each GPU that may be used.
        choose: The plan of the product in a lane, with B copied in or resident.
        resident: The GPUs on which its B is.

    Raises:
        PlanError: No lane meets the product's options.
    """
    times = _LaneTimes(choose)
    choices: list[Choice] = []
    for group in [*_list_groups(gpus), ()]:
        for with_cpu in (False, True) if group else (True,):
            lane = frozenset([position for position, _ in group] + [CPU] * with_cpu)
            names = tuple(sorted(name for _, name in group))
            settled = times.find(lane, names, b_resident=True) if group and resident else None
            seconds = times.find(lane, names, b_resident=False)
            if settled is not None and lane <= resident | {CPU}:
                seconds = settled
            if seconds is not None:
                choices.append(Choice(lane, seconds, math.inf if settled is None else settled))
    if not choices and times.refusal is not None:
        raise times.refusal
    return tuple(choices)


class _LaneTimes:
    """The times of a product in lanes; lanes of equal devices are planned once."""

    def __init__(self, choose: Callable[[Lane, bool], "Plan"]) -> None:
        self._choose = choose
        self._found: dict[tuple[tuple[str, ...], bool, bool], float | None] = {}
        self.refusal: PlanError | None = None

    def find(self, lane: Lane, names: tuple[str, ...], *, b_resident: bool) -> float | None:
        """The seconds of a plan that uses all of a lane; None if the best one uses less of it."""
        kind = names, CPU in lane, b_resident
        if kind not in self._found:
            self._found[kind] = None
            try:
                plan = self._choose(lane, b_resident)
            except PlanError as error:
                self.refusal = error
            else:
                if plan.lane == lane:
                    self._found[kind] = plan.predicted.total_seconds
        return self._found[kind]


def _list_groups(gpus: Sequence[tuple[int, str]]) -> list[Sequence[tuple[int, str]]]:
    """Groups of one, two, four … consecutive GPUs, and all of them."""
    count, size, groups = len(gpus), 1, []
    while size < count:
        starts = range(0, count - size + 1, size)
        groups += [gpus[start : start + size] for start in starts]
        size *= 2
    return [*groups, gpus] if gpus else []
