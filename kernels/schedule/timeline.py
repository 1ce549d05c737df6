"""The time of a list of parts: a recurrence over three queues.

Copies in, kernels and copies out are queues on the device; each takes the parts in order. With
in(i), run(i) and out(i) as the seconds of part i, their ends are

    loaded(i)   = max(loaded(i-1), freed(i)) + in(i)        freed: a buffer's last kernel
    computed(i) = max(computed(i-1), loaded(i)) + run(i)    run: launch + waves · (w + depth · d)
    stored(i)   = max(stored(i-1), computed(i)) + out(i)

and the product takes stored(last). Copies are slower while both directions of the link are busy
(duplex). GPUs that exchange B have a fourth queue: each piece of B that came in over the own link
is followed by the pieces from the other GPUs; the kernel waits for all of them.

All rates are arguments; this file has none of a machine.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf
from typing import Final, NamedTuple

from wavetrim.kernels.schedule.panels import PanelProblem
from wavetrim.kernels.schedule.steps import Part

PAGE_BYTES: Final = 64 << 10
"""Page of host memory as an NVIDIA GPU maps it, in bytes. From rows of this length on, each row of
a copied part costs the same (H100, 1f09f97; docs/notes/memory.md)."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of a machine's link and of one kernel.

    Attributes:
        in_bytes_per_second: Copies from host memory to the device.
        out_bytes_per_second: Copies from the device to host memory.
        duplex: Factor on the time of a copy while the other direction is busy: 1 for independent
            directions, 2 for directions that take turns.
        call_seconds: Time of a product before its first step.
        step_seconds: Time of a step but for its bytes: to enqueue it, and the latency of a copy.
        row_seconds: Time that each row adds to a copy of parts of rows: each row is on another page
            of host memory, whose address the device has to translate.
        launch_seconds: Latency of a kernel launch.
        wave_seconds: The part of a wave's time that does not depend on K.
        depth_seconds: Time of a wave for each unit of K.
        memory_bytes_per_second: Bandwidth of device memory, where kernels that add to C read and
            write it.
        peers: Other GPUs with which B is exchanged; 0 if all of it is copied in over this link.
        peer_bytes_per_second: Copies from other GPUs.
    """

    in_bytes_per_second: float
    out_bytes_per_second: float
    duplex: float
    call_seconds: float
    step_seconds: float
    row_seconds: float
    launch_seconds: float
    wave_seconds: float
    depth_seconds: float
    memory_bytes_per_second: float
    peers: int = 0
    peer_bytes_per_second: float = inf

    def slow_copies(self, factor: float, split_seconds: float) -> "Rates":
        """The rates while the CPU computes its part.

        Args:
            factor: Factor on the time of copies.
            split_seconds: Time that a product for both sides takes longer to start.
        """
        return replace(
            self,
            in_bytes_per_second=self.in_bytes_per_second / factor,
            out_bytes_per_second=self.out_bytes_per_second / factor,
            call_seconds=self.call_seconds + split_seconds,
        )

    def find_kernel_seconds(
        self, problem: PanelProblem, rows: int, columns: int, depth: int
    ) -> float:
        """Seconds of a launch: latency + waves · (wave_seconds + depth · depth_seconds)."""
        waves = problem.find_waves(rows, columns, depth)
        return self.launch_seconds + waves * (self.wave_seconds + depth * self.depth_seconds)


class Spans(NamedTuple):
    """When a part is at work, in seconds from the call: begin and end of each queue.

    Attributes:
        part: The part.
        copy_in: Its copy in.
        kernel: Its kernel.
        copy_out: Its copy out; None if later parts add to its C.
    """

    part: Part
    copy_in: tuple[float, float]
    kernel: tuple[float, float]
    copy_out: tuple[float, float] | None


def time_parts(
    problem: PanelProblem,
    parts: Iterable[Part],
    rates: Rates,
    slots: int,
    spans: list[Spans] | None = None,
) -> float:
    """Seconds from the call to the end of the last copy out.

    Args:
        problem: The product.
        parts: Its parts, in order.
        rates: The rates of the machine.
        slots: Buffers of A and of C.
        spans: Receives when each part is at work; None if nobody asks.
    """
    k, item_bytes, resident = problem.k, problem.item_bytes, problem.b_resident
    in_seconds = item_bytes / rates.in_bytes_per_second  # of an element, as those below
    out_seconds = item_bytes / rates.out_bytes_per_second
    add_seconds = 2 * item_bytes / rates.memory_bytes_per_second
    peer_seconds = item_bytes / rates.peer_bytes_per_second
    own_share = 1 / (1 + rates.peers)
    # Rows shorter than a page share one, and so its cost.
    row_seconds = rates.row_seconds * min(1.0, k * item_bytes / PAGE_BYTES)
    step_seconds, call_seconds, duplex = rates.step_seconds, rates.call_seconds, rates.duplex - 1
    kernels: dict[tuple[int, int, int], float] = {}
    computed_panels: list[float] = []
    stored_panels: list[float] = []
    loaded = passed = computed = stored = busy = call_seconds
    for index, part in enumerate(parts):
        rows, columns, depth = len(part.rows), len(part.columns), len(part.depth)
        start = max(loaded, call_seconds + index * step_seconds)
        if part.depth.start == 0 and len(stored_panels) >= slots:
            start = max(start, computed_panels[-slots])
            computed = max(computed, stored_panels[-slots])
        b_items = 0 if resident or not part.begins_b else depth * columns
        loaded = start + step_seconds + (rows * depth + b_items * own_share) * in_seconds
        if depth < k:
            loaded += rows * row_seconds
        # While copies out are under way, both take longer.
        together = duplex * max(0.0, min(stored, loaded) - max(busy, start))
        loaded, stored = loaded + together, stored + together
        passed = max(loaded, passed) + b_items * (1 - own_share) * peer_seconds
        size = rows, columns, depth
        if size not in kernels:
            kernels[size] = rates.find_kernel_seconds(problem, rows, columns, depth)
        launched = max(computed, passed)
        computed = launched + kernels[size]
        if part.depth.start:  # C is read and written once more
            computed += rows * columns * add_seconds
        is_last = part.depth.stop == k
        if is_last:
            if computed > stored:  # until then there was no copy out
                busy = computed
            begun = max(stored, computed)
            stored = begun + step_seconds + rows * columns * out_seconds
            computed_panels.append(computed)
            stored_panels.append(stored)
        if spans is not None:
            out = (begun, stored) if is_last else None
            spans.append(Spans(part, (start, loaded), (launched, computed), out))
    return stored
