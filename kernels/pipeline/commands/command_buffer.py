"""Command buffers: a product's copies, launches and events, recorded once as data.

The steps of a product from page-locked memory need no host once they are enqueued. So C submits
many of them in one call (kernels/transfer/native/commands.c, docs/notes/memory.md). A buffer serves
operands at any address: its copies name operand, row and offset.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wavetrim.kernels.schedule.steps import Step

IN, COMPUTE, OUT, BETWEEN = range(4)
"""The queues: copies in, kernels, copies out, copies from other GPUs."""

_WORDS: Final = 7
"""Words of a command after kind and queue, as in kernels/transfer/native/commands.c."""


class Timed(IntEnum):
    """What lies between events whose times can be read."""

    NOTHING = 0
    WHOLE = 1
    EACH = 2
    """Each copy and kernel, which delays them by some microseconds."""


class Store(NamedTuple):
    """A step's copy out.

    Attributes:
        step: The step.
        event: Index of the event after it.
        number: Index of the step.
    """

    step: Step
    event: int
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class CommandBuffer:
    """The commands of a product. It equals only itself.

    Attributes:
        label: The kernel, for messages.
        commands: Kind, queue and words of each, in rows: all of a step before those of the next.
        ends: Number of commands until the end of each turn. The commands of a team are enqueued in
            turns, one of each GPU, then the next of each. A turn is a step. A step that exchanges B
            has several: its copies over the own link, each other GPU's piece of B, and the rest.
        events: Number of events.
        stores: The copies out, in order.
        timed: What its events time.
        kernel_spans: Events around kernels, in pairs, if each is timed.
        copy_spans: Events around copies, likewise.
        whole_span: The first event and the last, if anything is timed.
        memory: What the commands point to, so that it stays alive.
        address: Address of the first command.
    """

    label: str
    commands: NDArray[np.int64]
    ends: NDArray[np.int64]
    events: int
    stores: tuple[Store, ...]
    timed: Timed
    kernel_spans: NDArray[np.int32]
    copy_spans: NDArray[np.int32]
    whole_span: NDArray[np.int32]
    memory: object
    address: int


def pack_commands(rows: Sequence[tuple[int, ...]]) -> NDArray[np.int64]:
    """Commands as C reads them.

    Args:
        rows: Kind, queue and words of each.
    """
    size = 2 + _WORDS
    return np.array([(*row, *(0,) * (size - len(row))) for row in rows], np.int64)
