"""A fault, and a service that is put through it again and again."""

import random
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.faults.ledger import Ledger, Outcome
from tests.faults.load import Load, make_pairs, wait_recovered
from tests.server import RunningServer


class Fault:
    """One kind of fault, over a service of its own.

    Attributes:
        told: What happens, in a few words.
        needs: What it needs of the machine, by its name in tests/needs.py.
        reasons: Kinds of errors that jobs may fail with.
        settings: Settings of its service.
    """

    told: str
    needs: str | None = None
    reasons: frozenset[str] = frozenset()
    settings: Mapping[str, Any] = MappingProxyType({"drain_seconds": 1})

    server: RunningServer
    ledger: Ledger

    def start(self, folder: Path, stack: ExitStack) -> RunningServer:
        """Start the service in an empty folder; the stack ends what is started for it."""
        return RunningServer(folder / "data", **self.settings)

    def prepare(self) -> None:
        """Do what is to be done before a round's jobs are posted."""

    def strike(self, chance: random.Random) -> float | None:
        """Let it happen, and end; returns when it had ended, by `time.monotonic`, if before now."""
        raise NotImplementedError

    def amend(self) -> None:
        """Tell the ledger what the fault is known to have taken, and end what it has left."""


class Stage:
    """A service that a fault has started, with operands, to be put through faults."""

    def __init__(self, fault: Fault, folder: Path, stack: ExitStack) -> None:
        self._server = fault.start(folder, stack)
        stack.callback(self._server.stop)
        self._server.wait_ready()
        self._ledger = Ledger(self._server)
        self._pairs = {self._ledger.add_operand(pair.matrix): pair for pair in make_pairs()}

    def put_through(self, fault: Fault, chance: random.Random) -> Outcome:
        """Put the service through a fault once, with jobs in flight."""
        fault.server, fault.ledger = self._server, self._ledger
        probe = next(iter(self._pairs))
        self._ledger.begin()
        fault.prepare()
        load = Load(self._ledger, self._pairs)
        try:
            time.sleep(chance.uniform(0, 0.6))
            ended = fault.strike(chance) or time.monotonic()
            wait_recovered(self._ledger, probe, self._pairs[probe])
            recovered = time.monotonic()
        finally:
            load.join()
        fault.amend()
        outcome = self._ledger.settle(fault.reasons)
        outcome.seconds = recovered - ended
        return outcome
