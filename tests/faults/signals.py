"""Processes that are killed or stopped: the engine, the service, both."""

import os
import signal
import time
from contextlib import suppress

from tests.faults.fault import Fault
from tests.processes import list_children


class Signals(Fault):
    """SIGKILL, or SIGSTOP and some time later SIGCONT or SIGKILL, of "engine" or "service"."""

    def __init__(self, *targets, stops, kills):
        self._targets = targets
        self._stops = stops
        self._kills = kills
        words = ["SIGSTOP"] if stops else []
        words.append("SIGKILL" if kills else "SIGCONT")
        self.told = f"{', then '.join(words)} of {' and '.join(targets)}"

    def strike(self, chance):
        pids = self._find()
        if self._stops:
            send(signal.SIGSTOP, pids.values())
            time.sleep(chance.uniform(0.05, 1.5))
            if not self._kills:
                names = list(pids)
                chance.shuffle(names)
                send(signal.SIGCONT, [pids[name] for name in names])
                return None
        targets = list(self._targets)
        chance.shuffle(targets)
        for target in targets:
            if target == "service":
                self.server.kill()
            elif "engine" in pids:
                send(signal.SIGKILL, [pids["engine"]])
            time.sleep(chance.choice((0, 0.01)))
        ended = time.monotonic()
        if "service" in targets:
            self.server.restart()
        return ended

    def _find(self):
        """The processes that are there; the engine may just be starting again."""
        service = self.server.process.pid
        pids = {"service": service} if "service" in self._targets else {}
        if "engine" in self._targets:
            pids |= dict(zip(("engine",), list_children(service), strict=False))
        return pids


class EngineHangs(Fault):
    """The engine is stopped and stays so."""

    told = "SIGSTOP of the engine, which nobody continues"

    def strike(self, chance):
        send(signal.SIGSTOP, list_children(self.server.process.pid)[:1])


def send(number, pids):
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
