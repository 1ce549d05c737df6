"""A command buffer: what was recorded of a product, to be submitted any number of times."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wavetrim.kernels.schedule.steps import Step


class Timed(IntEnum):
    """What lies between events whose times can be read."""

    NOTHING = 0
    WHOLE = 1
    EACH = 2
    """Each copy and kernel, which delays them by some microseconds."""


Staged = tuple[bool, bool, bool]
"""Which of A, B and C is staged."""

NOT_STAGED: Final[Staged] = (False, False, False)


class Store(NamedTuple):
    """A step's copy out.

    Attributes:
        step: The step.
        event: Index of the event after it.
        batch: Index of its batch.
    """

    step: Step
    event: int
    batch: int


@dataclass(frozen=True, slots=True, eq=False)
class CommandBuffer:
    """The commands of a product. It equals only itself.

    Attributes:
        label: The kernel, for messages.
        commands: Kind, queue and words of each, in rows.
        ends: Number of commands until the end of each batch. Those of a team are enqueued a batch
            of each GPU at a time. A batch is a step. A step that exchanges B has several: its
            copies over the own link, each other GPU's piece of B, and the rest. Before the steps of
            a staged product comes a batch of copies.
        events: Number of events.
        stores: The copies out, in order.
        end: The last event.
        is_staged: Whether an operand is staged.
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
    end: int
    is_staged: bool
    timed: Timed
    kernel_spans: NDArray[np.int32]
    copy_spans: NDArray[np.int32]
    whole_span: NDArray[np.int32]
    memory: object
    address: int
