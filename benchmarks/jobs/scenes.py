"""What is measured at one service, or at several in turns."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import wavetrim
from benchmarks.common.turns import take_turns
from benchmarks.jobs.rows import JobsRow, add_expected, add_used, summarize
from benchmarks.jobs.service import Posted, Service, draw_operand
from benchmarks.jobs.trace import CALLERS, LOADS, Ask, draw_trace

FLOOD_JOBS: Final = 80
VICTIM_JOBS: Final = 12
"""Jobs of one caller, and then of each of the two others."""

BEHIND_SIZE: Final = 3000
BEHIND_JOBS: Final = 20
"""Size of a long job, and how many short ones come behind it."""

SMALL: Final = Ask(CALLERS[0], 64, "float32")
CLIENTS: Final = 16
LIST_JOBS: Final = 300
LIST_MOST: Final = 4096
"""Products of a list, and their largest size."""


@dataclass(frozen=True, slots=True)
class Scenes:
    """What is measured, with one seed.

    Attributes:
        services: The services, which take turns.
        seed: Seed of traces.
        sizes: Sizes of jobs.
        jobs: Jobs of a trace.
        flood_size: Size of a flood's jobs.
        repeats: Jobs of 64³ for a rate.
    """

    services: Sequence[Service]
    seed: str
    sizes: Sequence[int]
    jobs: int
    flood_size: int
    repeats: int

    def measure(self) -> Iterator[list[JobsRow]]:
        """All scenes, each with its rows; the loads need the backlog's rate."""
        trace = draw_trace(self.seed, self.jobs, self.sizes)
        rates = []
        for service in self._take_turns("backlog"):
            service.store(trace)
            self._measure_backlog(service, trace)  # does not count: the service makes its plans
            row = self._measure_backlog(service, trace)
            rates.append(row.rate or 0.0)
            yield [row]
        for load in LOADS:
            for service in self._take_turns(str(load)):
                yield self._replay(service, trace, load, load * max(rates))
        scenes: tuple[Callable[[Service], list[JobsRow]], ...] = (
            self._flood,
            self._wait_behind,
            self._measure_rates,
            self._measure_lists,
        )
        for scene in scenes:
            for service in self._take_turns(scene.__name__):
                yield scene(service)
        yield [self._measure_in_process()]

    def _take_turns(self, name: str) -> Iterator[Service]:
        return (service for _, service in take_turns(self.services, 1, seed=f"{self.seed} {name}"))

    def _measure_backlog(self, service: Service, trace: Sequence[Ask]) -> JobsRow:
        """How many jobs a second a service does while many wait."""
        with service.measuring() as used:
            lists = ([one for one in trace if one.caller == caller] for caller in CALLERS)
            posted = [one for own in lists if own for one in service.post_list(own)]
            done = service.follow_all(posted)
        return add_used(summarize("backlog", service.policy, "all", done), used)

    def _replay(
        self, service: Service, trace: Sequence[Ask], load: float, rate: float
    ) -> list[JobsRow]:
        """A trace's rows: of all jobs, by caller, and by size."""
        with service.measuring() as used:
            done = service.replay(trace, rate)
        whole = summarize("load", service.policy, "all", done, load)
        groups = {
            name: [one for one in done if name in (one.ask.caller, str(one.ask.size))]
            for name in (*CALLERS, *map(str, self.sizes))
        }
        parts = [
            summarize("load", service.policy, name, some, load)
            for name, some in groups.items()
            if some
        ]
        return [add_used(add_expected(whole, done), used), *parts]

    def _flood(self, service: Service) -> list[JobsRow]:
        """Jobs of two callers, alone and behind many of another one."""
        flooder, *others = (Ask(caller, self.flood_size, "float32") for caller in CALLERS)
        service.store([flooder, *others])
        rows = {}
        # The first flood does not count: memory for so many results is made.
        for group, many in (("victims", FLOOD_JOBS), ("victims alone", 0), ("victims", FLOOD_JOBS)):
            before = service.post_list(many * [flooder]) if many else []
            victims = [
                (one, time.time(), service.post(one)) for one in others for _ in range(VICTIM_JOBS)
            ]
            done = service.follow_all(victims)
            service.follow_all(before)
            rows[group] = summarize("flood", service.policy, group, done)
        return list(rows.values())

    def _wait_behind(self, service: Service) -> list[JobsRow]:
        """Short jobs behind a long one of the same caller."""
        long = Ask(CALLERS[0], BEHIND_SIZE, "float32")
        service.store([long, SMALL])
        posted = [(one, time.time(), service.post(one)) for one in [long] + BEHIND_JOBS * [SMALL]]
        _, *done = service.follow_all(posted)
        return [summarize("behind", service.policy, "short ones", done)]

    def _measure_rates(self, service: Service) -> list[JobsRow]:
        """Small jobs, from many clients and from one, with results in memory or on disk."""
        service.store([SMALL])
        rows = []
        for what, clients, count in (
            ("rate", CLIENTS, self.repeats),
            ("single", 1, self.repeats // 4),
        ):
            for storage in ("memory", "disk"):
                warm = service.repeat(SMALL, count // 8, clients, storage)
                with service.measuring() as used:
                    done = service.repeat(SMALL, count, clients, storage)
                for one in (*warm, *done):
                    service.remove(one)
                rows.append(add_used(summarize(what, service.policy, storage, done), used))
        return rows

    def _measure_lists(self, service: Service) -> list[JobsRow]:
        """The same products as one list, and one by one from several clients."""
        asks = self._draw_list()
        service.store(asks)

        def post_each() -> list[Posted]:
            due = time.time()
            with ThreadPoolExecutor(CLIENTS) as pool:
                return list(pool.map(lambda one: (one, due, service.post(one)), asks))

        ways: dict[str, Callable[[], list[Posted]]] = {
            "one list, at first": partial(service.post_list, asks),  # new shapes are planned
            "one list": partial(service.post_list, asks),
            "one by one": post_each,
        }
        rows = []
        for group, post in ways.items():
            with service.measuring() as used:
                posted = post()
                accepted_seconds = time.time() - posted[0][1]
                done = service.follow_all(posted)
            row = add_used(summarize("list", service.policy, group, done), used)
            rows.append(replace(row, rate=len(done) / max(one.seconds for one in done)))
            accepted = JobsRow("list", service.policy, f"{group}, accepted", len(asks))
            rows.append(replace(accepted, rate=len(asks) / accepted_seconds))
        return rows

    def _draw_list(self) -> list[Ask]:
        sizes = [one for one in self.sizes if one <= LIST_MOST]
        drawn = draw_trace(f"{self.seed} list", LIST_JOBS, sizes)
        return [replace(one, caller=CALLERS[0], at=0.0) for one in drawn]

    def _measure_in_process(self) -> JobsRow:
        """The list's products in this process, after each was computed once."""
        asks = self._draw_list()
        operands = {one: draw_operand(one) for one in set(asks)}
        for matrix in operands.values():
            wavetrim.matmul(matrix, matrix)
        began = time.perf_counter()
        for one in asks:
            wavetrim.matmul(operands[one], operands[one])
        rate = len(asks) / (time.perf_counter() - began)
        return JobsRow("list", "in process", "in process", len(asks), rate=rate)
