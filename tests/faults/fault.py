"""A fault, and a service that is put through it again and again."""

import random
import time
from contextlib import ExitStack
from pathlib import Path

from tests.faults.ledger import Ledger, Outcome
from tests.faults.load import Load, make_pairs, wait_recovered
from tests.server import RunningServer


class Fault:
    """One kind of fault, over a service of its own.

    Attributes:
        told: What happens, in a few words.
        needs: What it needs of the machine, by its name in tests/needs.py.
        reasons: Kinds of errors that jobs may fail with.
        server: The service.
        ledger: What it has accepted.
    """

    told: str
    needs: str | None = None
    reasons: frozenset[str] = frozenset()

    server: RunningServer
    ledger: Ledger

    def start(self, folder: Path, stack: ExitStack) -> RunningServer:
        """Start the service.

        Args:
            folder: Empty.
            stack: Ends what is started for it.
        """
        del stack
        return RunningServer(folder / "data", drain_seconds=1)

    def prepare(self) -> None:
        """Do what is to be done before a round's jobs are posted."""

    def strike(self, chance: random.Random) -> float:
        """Let it happen, and end.

        Returns:
            When it had ended, by `time.monotonic`.
        """
        raise NotImplementedError

    def amend(self) -> None:
        """Tell the ledger what the fault is known to have taken, and end what it has left."""


class Stage:
    """A service with operands, to be put through faults.

    Args:
        fault: Starts the service.
        folder: Empty.
        stack: Ends what is started.
    """

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
            ended = fault.strike(chance)
            wait_recovered(self._ledger, probe, self._pairs[probe])
            recovered = time.monotonic()
        finally:
            load.join()
        fault.amend()
        outcome = self._ledger.settle(fault.reasons)
        outcome.seconds = recovered - ended
        return outcome
