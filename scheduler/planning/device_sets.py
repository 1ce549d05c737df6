"""Device sets: which of a machine's devices work at which product, while several wait. Pure.

A device set is the devices that work at one product: some GPUs, the CPU, or both. A product that
waits has choices: device sets, and the seconds that it takes on each.

- List scheduling: products choose in order, each the device set on which it ends first, counting
  what these devices must do before. So a small product may go to the CPU.
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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from wavetrim.scheduler.errors import PlanError

if TYPE_CHECKING:
    from wavetrim.scheduler.planning.plan import Plan

DeviceSet: TypeAlias = frozenset[int]
"""The devices that work at one product: positions of GPUs in the machine's profile, and `CPU`."""

CPU: Final = -1
"""The CPU's number in a device set."""

WAIT_GAIN: Final = 0.1
"""Share of its time that a product must save by waiting while other devices are free. Chosen: runs
differ from their predictions by about as much."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A device set that a product may take.

    Attributes:
        device_set: Its devices; none for a product so small that the calling thread computes it.
        seconds: What the product should take there.
        settled_seconds: The same once its B is resident there; infinite if no GPU has it.
    """

    device_set: DeviceSet
    seconds: float
    settled_seconds: float = math.inf

    @property
    def gpus(self) -> int:
        """Number of its GPUs."""
        return len(self.device_set) - (CPU in self.device_set)


class Assignment(NamedTuple):
    """On which devices a product is computed, and when.

    Attributes:
        choice: Its device set.
        begins: Seconds from now until its devices are free together; 0 if it may begin now.
    """

    choice: Choice
    begins: float

    @property
    def ends(self) -> float:
        """Seconds from now until it should be done."""
        return self.begins + self.choice.seconds


def assign_devices(
    waiting: Sequence[Sequence[Choice]],
    busy: Mapping[int, float],
    gpus: int,
    *,
    behind: int = 0,
) -> tuple[Assignment, ...]:
    """Choose the devices of each product, and whether it begins now.

    Args:
        waiting: The choices of each product that waits, at least one, in the products' order.
        busy: Seconds until each device is free; those that are free now may be left out.
        gpus: GPUs of the machine.
        behind: Further products that wait; each counts as one that takes the mean of these.

    Returns:
        An assignment for each product. Those that begin now share no device, and use none that is
        busy.
    """
    timetable = _Timetable(busy)
    work = [_find_work(choices) for choices in waiting]
    all_work, assignments = sum(work) * (1 + behind / max(1, len(work))), []
    for choices, own in zip(waiting, work, strict=True):
        found = _choose(_narrow(choices, all_work - own, gpus), timetable)
        timetable.add(found)
        assignments.append(found)
    return tuple(assignments)


class _Timetable:
    """When each device is free, as products are assigned."""

    def __init__(self, busy: Mapping[int, float]) -> None:
        self._taken = {device for device, seconds in busy.items() if seconds > 0}
        self._free_at = dict(busy)
        self._reserved_at: dict[int, float] = {}

    def find_begin(self, choice: Choice) -> float:
        """When a product may begin: now if that delays no earlier product, else after them."""
        device_set, reserved_at = choice.device_set, self._reserved_at
        if self._taken.isdisjoint(device_set):
            for device in device_set:
                if device in reserved_at and choice.seconds > reserved_at[device]:
                    break
            else:
                return 0.0
        return max([self._free_at.get(device, 0.0) for device in device_set])

    def add(self, one: Assignment) -> None:
        """Take the devices of a product, now or from its beginning on."""
        for device in one.choice.device_set:
            self._free_at[device] = max(self._free_at.get(device, 0.0), one.ends)
            if one.begins > 0:
                begin = self._reserved_at.get(device, math.inf)
                self._reserved_at[device] = min(begin, one.begins)
            else:
                self._taken.add(device)


def _choose(choices: Iterable[Choice], timetable: _Timetable) -> Assignment:
    """The choice with which a product ends first; of equal ones that with fewer devices.

    If it could begin at once elsewhere, waiting must save `WAIT_GAIN`.
    """
    best = at_once = None
    for choice in choices:
        one = Assignment(choice, timetable.find_begin(choice))
        if best is None or _ends_before(one, best):
            best = one
        if one.begins <= 0 and (at_once is None or _ends_before(one, at_once)):
            at_once = one
    assert best is not None, "a product has choices"
    if at_once is None:
        return best
    free = at_once.choice
    most_seconds = (1 - WAIT_GAIN) * min(free.seconds, free.settled_seconds)
    return best if best.ends <= most_seconds else at_once


def _ends_before(one: Assignment, other: Assignment) -> bool:
    return (one.ends, len(one.choice.device_set)) < (other.ends, len(other.choice.device_set))


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
    choose: Callable[[DeviceSet, bool], "Plan"],
    resident: DeviceSet = frozenset(),
) -> tuple[Choice, ...]:
    """The device sets that a product may take on a machine; none if nothing meets its options.

    GPUs are taken in groups of one, two, four and so on, and all together, each group with and
    without the CPU. Groups of equal GPUs are planned for once.

    Args:
        gpus: Position and name of each GPU that may be used.
        choose: The plan of the product on a device set, with B copied in or resident.
        resident: The GPUs on which its B is.

    Raises:
        PlanError: No device set meets the product's options.
    """
    times = _Times(choose)
    choices: list[Choice] = []
    for group in [*_list_groups(gpus), ()]:
        for with_cpu in (False, True) if group else (True,):
            device_set = frozenset([position for position, _ in group] + [CPU] * with_cpu)
            names = tuple(sorted(name for _, name in group))
            settled = times.find(device_set, names, b_resident=True) if group and resident else None
            seconds = times.find(device_set, names, b_resident=False)
            if settled is not None and device_set <= resident | {CPU}:
                seconds = settled
            if seconds is not None:
                choices.append(
                    Choice(device_set, seconds, math.inf if settled is None else settled)
                )
    if not choices and times.refusal is not None:
        raise times.refusal
    return tuple(choices)


class _Times:
    """The times of a product on device sets; sets of equal devices are planned for once."""

    def __init__(self, choose: Callable[[DeviceSet, bool], "Plan"]) -> None:
        self._choose = choose
        self._found: dict[tuple[tuple[str, ...], bool, bool], float | None] = {}
        self.refusal: PlanError | None = None

    def find(
        self, device_set: DeviceSet, names: tuple[str, ...], *, b_resident: bool
    ) -> float | None:
        """The seconds of the best plan; None if it does not use all of these devices."""
        kind = names, CPU in device_set, b_resident
        if kind not in self._found:
            self._found[kind] = None
            try:
                plan = self._choose(device_set, b_resident)
            except PlanError as error:
                self.refusal = error
            else:
                if plan.device_set == device_set:
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
