"""What is told of a job's end: the formulas, and a simulated service whose answers hold."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from wavetrim.service.jobs.estimate import LEAST_ENDS, Kind, Past, Span, Told, find_ahead
from wavetrim.service.jobs.queue import Queue

NOW = 1000.0


@dataclass(eq=False)
class Product:
    caller: str = "ada"
    since: float = NOW
    predicted_seconds: float = 1.0
    priority: int = 0
    kind: Kind = ("float32", 1, 1, 1, None)
    queue: Queue | None = None


def ahead(job, waiting, **more):
    queue = Queue()
    for one in waiting:
        queue.add(one)
    given = {"left_seconds": 0.0, **more}
    return find_ahead(job, queue, Past(), now=NOW, **given)


def test_what_runs_is_waited_for_and_shared_by_those_that_run_at_once():
    assert ahead(Product(), [], left_seconds=3).seconds == 3
    assert ahead(Product(), [], left_seconds=3, abreast=2).seconds == 1.5


def test_other_callers_go_first_until_they_were_served_as_much():
    own = [Product(since=NOW - age) for age in (3, 2, 1)]
    found = ahead(Product(), own + [Product("bob", NOW - 9) for _ in range(50)])
    assert found == (3, 3, 6.0)


def test_of_many_kinds_and_callers_some_stand_for_all():
    own = [Product(since=NOW - 99, predicted_seconds=1 + n / 1e6) for n in range(100)]
    others = [Product(f"caller {n}", NOW - 99) for n in range(100)]
    found = ahead(Product(predicted_seconds=2.0), own + others)
    assert found.own == pytest.approx(100, rel=0.2)
    assert found.others == pytest.approx(100, rel=0.2)


def test_ratios_of_ended_jobs_move_and_narrow_the_interval():
    past = Past()
    for index in range(LEAST_ENDS):
        assert past.is_young
        ended = 2.0 + 0.01 * index
        past.learn_end(Told(0.0, 0.5, 1.0), begun=0.6, ended=ended)
    assert not past.is_young
    begins, ends = past.calibrate(NOW, NOW + 5, NOW + 10)
    assert ends == pytest.approx(Span(NOW + 20, NOW + 20, NOW + 21.8)), (
        "the end nearest to NOW + 10"
    )
    assert begins == pytest.approx(Span(NOW + 6, NOW + 6, NOW + 6)), "a tenth of ten seconds later"
    past.learn_end(Told(0.0, 0.5, 1.0), begun=0.5, ended=0.5)
    assert past.calibrate(NOW, NOW + 5, NOW + 10)[1].at == NOW + 10, "inside it is as predicted"


def test_seconds_are_predictions_times_what_was_measured():
    past, job = Past(), Product(predicted_seconds=2.0)
    other = Product(predicted_seconds=2.0, kind=("float64", 4, 4, 4, None))
    assert past.find_seconds(job) == 2.0
    for took in (3.0, 4.0, 5.0):
        past.learn_run(Product(), took)
    assert past.find_seconds(job) == 8.0
    assert past.find_seconds(other) == 8.0, "a new kind has the factor of all"


class Service:
    """A service with one device, products of 16 kinds, and predictions that are wrong by kind.

    Args:
        seed: Of all that is random.
        load: Work that arrives in a second, in seconds.
        callers: Those who post.
        monkeypatch: Sets the queue's clock.
    """

    def __init__(self, seed, load, callers, monkeypatch, jobs=500):
        self.monkeypatch = monkeypatch
        random = np.random.default_rng(seed)
        kinds = [(dtype, n, n, n, None) for n in range(7, 15) for dtype in ("f4", "f8")]
        seconds = {kind: 2 ** (3 * kind[1] - 43) + 3e-4 for kind in kinds}
        wrong = {kind: math.exp(random.normal(0, 0.4)) for kind in kinds}
        picked = [kinds[one] for one in random.integers(0, len(kinds), jobs)]
        gap = sum(seconds[kind] for kind in picked) / jobs / load
        times = NOW + np.cumsum(random.exponential(gap, jobs))
        self.jobs = [
            Product(
                callers[random.integers(len(callers))], time, seconds[kind] * wrong[kind], 0, kind
            )
            for time, kind in zip(times.tolist(), picked, strict=True)
        ]
        self.takes = {job: seconds[job.kind] * math.exp(random.normal(0, 0.1)) for job in self.jobs}
        self.past = Past()
        self.queue = Queue()
        self.running: tuple[Product, float] | None = None
        self.told: dict[Product, tuple[float, Span]] = {}
        self.ends: dict[Product, float] = {}

    def run(self):
        coming = list(reversed(self.jobs))
        while len(self.ends) < len(self.jobs):
            ends = (
                math.inf if self.running is None else self.running[1] + self.takes[self.running[0]]
            )
            if coming and coming[-1].since <= ends:
                self.accept(coming.pop())
            else:
                self.end(ends)
            if self.running is None and self.queue:
                self.begin(max(self.jobs[len(self.jobs) - len(coming) - 1].since,
                               max(self.ends.values(), default=0.0)))  # fmt: skip

    def accept(self, job):
        now = job.since
        left = 0.0
        if self.running is not None:
            left = abs(self.past.find_seconds(self.running[0]) - (now - self.running[1]))
        found = find_ahead(job, self.queue, self.past, now=now, left_seconds=left)
        end = now + found.seconds + self.past.find_seconds(job)
        self.told[job] = end, self.past.calibrate(now, now, end)[1]
        self.queue.add(job)

    def begin(self, now):
        self.monkeypatch.setattr("wavetrim.service.jobs.queue.read_clock", lambda: now)
        (job,) = self.queue.list_first(1)
        self.queue.begin(job)
        self.running = job, now

    def end(self, now):
        assert self.running is not None
        job, began = self.running
        self.running, self.ends[job] = None, now
        self.past.learn_run(job, now - began)
        told = Told(job.since, job.since, self.told[job][0])
        self.past.learn_end(told, begun=began, ended=now)


@pytest.mark.parametrize("callers", [("ada",), ("ada", "bob", "eve")], ids=["one", "three"])
@pytest.mark.parametrize(("load", "most_error"), [(0.5, 0.15), (0.8, 0.15), (1.1, 0.25)])
def test_nine_of_ten_jobs_end_in_the_interval_that_was_told(load, most_error, callers, monkeypatch):
    covered, errors, widths = [], [], []
    for seed in range(3):
        service = Service(seed, load, callers, monkeypatch)
        service.run()
        for job in service.jobs[100:]:
            told, end = service.told[job][1], service.ends[job]
            covered.append(told.low <= end <= told.high)
            errors.append(abs(told.at - end) / (end - job.since))
            widths.append((told.high - told.low) / (told.at - job.since))
    assert 0.85 <= np.mean(covered) <= 0.95
    assert np.median(errors) <= most_error
    assert np.median(widths) <= 2
