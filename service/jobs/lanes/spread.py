"""A product that is computed by a node, or by several engines at once.

Each engine gets some rows, as a product of its own. When a node is lost, other engines compute the
rows that have not come back from it, unless the product was stopped. Any other failure ends the
product, as it does on one machine.
"""

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from wavetrim.scheduler.engine.messages import FINAL_TYPES, Message, RunRequest
from wavetrim.scheduler.engine.parts import merge_events
from wavetrim.scheduler.planning.placing import Share
from wavetrim.service.engine.cluster import ClusterNode
from wavetrim.service.engine.fleet import AnyEngine, Fleet

logger = logging.getLogger(__name__)

_MOST_LOSSES: Final = 32
"""Nodes that a product may lose before it fails; chosen."""

_NODE_FAILURES: Final = frozenset({"node", "engine", "gone", "memory", "device", "internal"})
"""Kinds of failure that are a node's own: another engine may succeed."""


@dataclass(slots=True)
class _Part:
    """Some rows of the product at one engine.

    Attributes:
        job: Id of the part: that of the try, a hyphen, and the part's number.
        engine: Where it is computed.
        share: Which rows, and how long they should take.
        began: When it was sent, by the monotonic clock.
        was_idle: Whether the engine had nothing else to do then.
        done: How many of its first rows have come back.
        progress: Share of its rows that is done, 0…1.
        rows: Rows that each side has finished.
        message: The final message.
        final: Rows of the product that will not change any more.
    """

    job: str
    engine: AnyEngine
    share: Share
    began: float
    was_idle: bool = True
    done: int = 0
    progress: float = 0.0
    rows: Mapping[str, float] = field(default_factory=dict)
    message: Message | None = None
    final: list[range] = field(default_factory=list)

    @property
    def success(self) -> Message | None:
        """The final message if the part succeeded."""
        message = self.message
        return message if message is not None and message["type"] == "succeeded" else None


class Spread:
    """Computes one product in parts.

    Args:
        request: The product.
        fleet: The engines.
        choose: Says who computes rows that a lost node has left; empty if no engine is ready.
        begun: Called with engine, id and expected seconds of each part that is sent; returns
            whether the engine had nothing else to do.
        ended: Called with engine and id of each part that has ended.
        take: Receives the messages of the product, as those of a single engine.
    """

    def __init__(
        self,
        request: RunRequest,
        fleet: Fleet,
        *,
        choose: Callable[[range], Sequence[Share]],
        begun: Callable[[str, str, float], bool],
        ended: Callable[[str, str], None],
        take: Callable[[Message], None],
    ) -> None:
        self._request = request
        # A job may be tried again, while nodes still end the parts of its last try.
        self._try = f"{request.job}.{secrets.token_hex(8)}"
        self._fleet = fleet
        self._choose = choose
        self._begun = begun
        self._ended = ended
        self._take = take
        self._parts: list[_Part] = []
        self._losses = 0
        self._stopped = False
        self._failure: Message | None = None
        self._start = time.perf_counter()

    def start(self, shares: Sequence[Share]) -> None:
        """Send the parts; the final message may come before this returns."""
        for share in shares:
            self._send(share)
        self._end_if_done()

    def cancel(self) -> None:
        """Ask all engines to stop."""
        self._stopped = True
        for part in self._list_running():
            part.engine.cancel(part.job)

    async def restart_engines(self, reason: str) -> None:
        """End by force the engines that have not stopped."""
        self._stopped = True
        for part in self._list_running():
            await part.engine.restart(reason)

    def _list_running(self) -> list[_Part]:
        return [part for part in self._parts if part.message is None]

    def _send(self, share: Share) -> None:
        if self._failure is not None:
            return
        engine = self._fleet.find(share.engine)
        if engine is None:
            self._fail({"kind": "engine", "message": "no engine is ready", "retryable": True})
            return
        job = f"{self._try}-{len(self._parts)}"
        part = _Part(job, engine, share, time.monotonic())
        self._parts.append(part)
        message = self._request.cut(share.rows, job).as_message()
        part.was_idle = self._begun(share.engine, job, share.seconds)
        engine.start_run(
            {**message, "expected_seconds": share.seconds},
            lambda message: self._take_part(part, message),
        )

    def _take_part(self, part: _Part, message: Message) -> None:
        start = part.share.rows.start
        match message["type"]:
            case "rows":
                part.final = [range(start + first, start + end) for first, end in message["final"]]
                part.done = max((end for first, end in message["final"] if first == 0), default=0)
                self._tell_rows()
            case "again":
                part.final = []
                part.done = 0
                self._tell({"type": "again"})
                self._tell_rows()
            case "progress":
                part.progress, part.rows = message["progress"], message["rows"]
                self._tell_progress()
            case kind if kind in FINAL_TYPES:
                self._end_part(part, message)

    def _end_part(self, part: _Part, message: Message) -> None:
        part.message = message
        self._ended(part.share.engine, part.job)
        rows = part.share.rows
        if message["type"] == "succeeded":
            if isinstance(part.engine, ClusterNode):
                self._learn(part, part.engine, message)
            part.final, part.progress = [rows], 1.0
        elif message["type"] == "failed" and self._can_move(part, message):
            self._move_rest(part, message)
        elif self._stopped and message.get("kind") in _NODE_FAILURES:
            self._fail({"type": "cancelled"})  # its engine was ended to stop it
        else:
            self._fail(message)
        self._end_if_done()

    def _learn(self, part: _Part, node: ClusterNode, message: Message) -> None:
        """Learn from a node's success for later products."""
        node.resident = frozenset(message.get("resident", ()))
        if part.was_idle:
            measured = time.monotonic() - part.began
            node.note_run(expected_seconds=part.share.seconds, measured_seconds=measured)

    def _can_move(self, part: _Part, message: Message) -> bool:
        """Whether other engines may compute the rows that are missing."""
        if self._stopped or not isinstance(part.engine, ClusterNode):
            return False
        return self._failure is None and message["kind"] in _NODE_FAILURES

    def _move_rest(self, part: _Part, message: Message) -> None:
        """Have others compute the rows that have not come back."""
        self._losses += 1
        rows = part.share.rows
        # At least one row is left, so that another engine answers.
        part.done = min(part.done, len(rows) - 1)
        rest = range(rows.start + part.done, rows.stop)
        logger.warning(
            "product %s: rows %d to %d go elsewhere: %s",
            self._request.job, rest.start, rest.stop, message["message"],
        )  # fmt: skip
        if self._losses > _MOST_LOSSES:
            self._fail(message)
            return
        shares = self._choose(rest)
        if not shares:
            self._fail(message)
        for share in shares:
            self._send(share)

    def _fail(self, message: Message) -> None:
        """The product cannot be completed: stop the rest of it."""
        if self._failure is None:
            self._failure = {"type": "failed", "poisoned": False, **message}
            self.cancel()

    def _end_if_done(self) -> None:
        if self._list_running():
            return
        if self._failure is not None:
            self._tell(self._failure)
            return
        seconds = time.perf_counter() - self._start
        parts = sorted(self._parts, key=lambda part: part.share.rows.start)
        merged = merge_events([part.success for part in parts if part.success], seconds=seconds)
        expected = max(part.share.seconds for part in self._parts)
        merged["plan"]["predicted"]["total_seconds"] = expected
        merged["plan"]["nodes"] = [_describe(part) for part in self._parts]
        for part in self._parts:
            if part.message and not part.success:
                _count_lost(part, merged)
        self._tell(merged)

    def _tell_rows(self) -> None:
        if self._request.row_step:
            final = [[rows.start, rows.stop] for part in self._parts for rows in part.final]
            self._tell({"type": "rows", "final": final})

    def _tell_progress(self) -> None:
        if self._request.reports:
            rows = self._request.out.rows
            done = sum(part.progress * len(part.share.rows) for part in self._parts)
            sides = {
                side: sum(part.rows.get(side, 0.0) for part in self._parts)
                for side in ("gpu", "cpu", "nodes")
            }
            self._tell({"type": "progress", "progress": min(1.0, done / rows), "rows": sides})

    def _tell(self, message: Message) -> None:
        self._take({**message, "job": self._request.job})


def _count_lost(part: _Part, merged: dict[str, Any]) -> None:
    """Count the rows that a lost node has done: as its GPUs' if it has any, since it cannot say."""
    plan, timings = merged["plan"], merged["timings"]
    if isinstance(part.engine, ClusterNode) and part.engine.devices:
        plan["gpu_rows"] += part.done
    else:
        plan["f"] += part.done
        timings["f_actual"] += part.done


def _describe(part: _Part) -> dict[str, Any]:
    """What a plan shows of a part."""
    node = part.engine
    plan = part.success["plan"] if part.success else {}
    return {
        "engine": part.share.engine,
        "host": node.host if isinstance(node, ClusterNode) else None,
        "rows": [part.share.rows.start, part.share.rows.stop],
        "f": plan.get("f"),
        "rows_done": len(part.share.rows) if plan else part.done,
        "predicted_seconds": part.share.seconds,
    }
