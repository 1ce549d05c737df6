"""The lanes of this machine: which devices compute which waiting product, and when."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from wavetrim.scheduler.engine.messages import Message, RunRequest
from wavetrim.scheduler.planning.lanes import CPU, Choice, Place, place_products
from wavetrim.service.engine.engine import Engine
from wavetrim.service.jobs.lanes.choices import Choices
from wavetrim.service.jobs.lanes.load import Load
from wavetrim.service.jobs.lanes.turn import Turn


@dataclass(frozen=True, slots=True)
class LaneState:
    """What one device of this machine does.

    Attributes:
        device: Its name, as in plans.
        busy_seconds: Expected time until it has done its products; 0 if it has none.
    """

    device: str
    busy_seconds: float


class HostLanes:
    """Places products on the devices of this machine. To be used from one event loop.

    Args:
        engine: The engine.
        load: What it has to do.
    """

    def __init__(self, engine: Engine, load: Load) -> None:
        self._engine = engine
        self._load = load
        self._choices = Choices(engine)

    def find(self, request: RunRequest) -> tuple[Choice, ...]:
        """Find where a product may be computed; to be called in a thread, as it may be slow."""
        return self._choices.find(request)

    def is_fresh(self, turn: Turn) -> bool:
        """Whether `find` need not be called again yet."""
        return self._choices.is_fresh(turn)

    def is_known(self, turn: Turn) -> bool:
        """Whether `place` can be called without `find`."""
        return self._choices.find_kept(turn) is not None

    def prefers_gpu(self, turn: Turn) -> bool:
        """Whether a product's B is on some of the GPUs, but not on all."""
        return 0 < len(self._choices.find_residents(turn.request)) < len(self._engine.devices)

    def learn(self, turn: Turn, message: Message) -> None:
        """Learn from a product's success on which GPUs its B is now."""
        if turn.request.b_key is not None and "b_on" in message:
            self._choices.note_residents(turn.request.b_key, message["b_on"])

    def place(self, turns: Sequence[Turn], *, behind: int) -> dict[Turn, Place]:
        """Choose where products that `is_known` are computed, in their order.

        One that must wait for its devices has them reserved (`Turn.begins_at`).

        Args:
            turns: The products.
            behind: Further products that wait.
        """
        known = [(turn, self._choices.find_kept(turn)) for turn in turns]
        devices = self._choices.devices
        waiting = [(turn, choices) for turn, choices in known if choices is not None]
        places = place_products(
            [choices for _, choices in waiting],
            self._load.list_busy(devices),
            len(devices) - 1,
            behind=behind,
        )
        placed = {turn: place for (turn, _), place in zip(waiting, places, strict=True)}
        now = time.monotonic()
        for turn, place in placed.items():
            turn.begins_at = now + place.begins
        return placed

    def describe(self) -> list[LaneState]:
        """What each device does."""
        devices = self._choices.devices
        busy = self._load.list_busy(devices)
        gpus = self._engine.devices
        return [
            LaneState(
                "cpu" if device == CPU else f"cuda:{gpus[device].index}", busy.get(device, 0.0)
            )
            for device in devices
        ]
