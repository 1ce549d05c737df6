"""What is told of a job's end: the formulas, and a simulated service whose answers hold."""

import math
from collections import Counter
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import pytest

from wavetrim.service.jobs.estimate import (
    Group,
    Others,
    find_ahead,
)
from wavetrim.service.jobs.past import LEAST_ENDS, Kind, Past, Span, find_kind
from wavetrim.service.jobs.queue import rank

NOW = 1000.0


@dataclass(frozen=True)
class Product:
    caller: str = "ada"
    since: float = NOW
    predicted_seconds: float = 1.0
    priority: int = 0
    kind: Kind = ("float32", 1, 1, 1, None)


def group(*products, seconds=None):
    first = products[0]
    seconds = first.predicted_seconds if seconds is None else seconds
    ordered = sorted(products, key=lambda one: one.since)
    return Group(ordered, seconds)


def ahead(job, own, others=None, **more):
    given = {"served_seconds": 0.0, "left_seconds": 0.0, **more}
    abreast = int(given.pop("abreast", 1))
    return find_ahead(job, own, others or [], now=NOW, abreast=abreast, **given)


def test_what_runs_is_waited_for_and_shared_by_those_that_run_at_once():
    assert ahead(Product(), [], left_seconds=3).seconds == 3
    assert ahead(Product(), [], left_seconds=3, abreast=2).seconds == 1.5


def test_other_callers_go_first_until_they_were_served_as_much():
    many = [group(*(Product("bob", NOW - 9) for _ in range(50)))]
    own = [group(*(Product(since=NOW - age) for age in (3, 2, 1)))]
    found = ahead(Product(), own, [Others(0.0, many)])
    assert (found.own, found.others, found.seconds) == (3, 3, 6.0)
    assert ahead(Product(), own, [Others(99.0, many)]).others == 0
    assert ahead(Product(), own, [Others(0.0, many)], served_seconds=10.0).others == 13


def test_groups_that_stand_for_several_count_so():
    one = Group([Product(since=NOW - 1)], 1.0, times=5)
    assert ahead(Product(), [one]).own == 5
    found = ahead(Product(), [one], [Others(0.0, [Group([Product("bob")], 1.0)], times=7)])
    assert found.others == 7


def test_ratios_of_ended_jobs_move_and_narrow_the_interval():
    past = Past()
    for index in range(LEAST_ENDS):
        assert past.is_young
        ended = 2.0 + 0.01 * index
        past.learn_end((0.0, 0.5, 1.0), begun=0.6, ended=ended)
    assert not past.is_young
    begins, ends = past.calibrate(NOW, NOW + 5, NOW + 10)
    assert ends == pytest.approx(Span(NOW + 20, NOW + 20, NOW + 21.8)), (
        "the end nearest to NOW + 10"
    )
    assert begins == pytest.approx(Span(NOW + 6, NOW + 6, NOW + 6)), "a tenth of ten seconds later"
    past.learn_end((0.0, 0.5, 1.0), begun=0.5, ended=0.5)
    assert past.calibrate(NOW, NOW + 5, NOW + 10)[1].at == NOW + 10, "inside it is as predicted"


def test_seconds_are_predictions_times_what_was_measured():
    past, kind, other = Past(), Product().kind, find_kind(9, 9, 9, "float64", None)
    assert past.find_seconds(kind, 2.0) == 2.0
    for took in (3.0, 4.0, 5.0):
        past.learn_run(kind, 1.0, took)
    assert past.find_seconds(kind, 2.0) == 8.0
    assert past.find_seconds(other, 2.0) == 8.0, "a new kind has the factor of all"


class Service:
    """A service with one device, products of 16 kinds, and predictions that are wrong by kind.

    Args:
        seed: Of all that is random.
        load: Work that arrives in a second, in seconds.
        callers: Those who post.
    """

    def __init__(self, seed, load, callers, jobs=500):
        random = np.random.default_rng(seed)
        kinds = [find_kind(size, size, size, dtype, None)
                 for size in (2**n for n in range(6, 14)) for dtype in ("f4", "f8")]  # fmt: skip
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
        self.waiting: list[Product] = []
        self.served: Counter[str] = Counter()
        self.level = 0.0
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
            if self.running is None and self.waiting:
                self.begin(max(self.jobs[len(self.jobs) - len(coming) - 1].since,
                               max(self.ends.values(), default=0.0)))  # fmt: skip

    def accept(self, job):
        now = job.since
        if all(one.caller != job.caller for one in self.waiting):
            self.served[job.caller] = max(self.served[job.caller], self.level)
        groups: dict[tuple[str, float], list[Product]] = {}
        for one in self.waiting:
            groups.setdefault((one.caller, one.predicted_seconds), []).append(one)
        made = {
            key: group(*ones, seconds=self.find_seconds(ones[0])) for key, ones in groups.items()
        }
        callers = {caller for caller, _ in made} - {job.caller}
        left = 0.0
        if self.running is not None:
            left = abs(self.find_seconds(self.running[0]) - (now - self.running[1]))
        found = find_ahead(
            job,
            [made[key] for key in made if key[0] == job.caller],
            [
                Others(self.served[name], self.sort(made[key] for key in made if key[0] == name))
                for name in callers
            ],
            served_seconds=self.served[job.caller], now=now, left_seconds=left,
        )  # fmt: skip
        end = now + found.seconds + self.find_seconds(job)
        self.told[job] = end, self.past.calibrate(now, now, end)[1]
        self.waiting.append(job)

    def sort(self, groups):
        return sorted(groups, key=attrgetter("stretch"))

    def begin(self, now):
        (job,) = rank(self.waiting, self.served, now=now, most=1)
        self.waiting.remove(job)
        self.level = self.served[job.caller]
        self.served[job.caller] += job.predicted_seconds
        self.running = job, now

    def end(self, now):
        assert self.running is not None
        job, began = self.running
        self.running, self.ends[job] = None, now
        self.past.learn_run(job.kind, job.predicted_seconds, now - began)
        told = job.since, job.since, self.told[job][0]
        self.past.learn_end(told, begun=began, ended=now)

    def find_seconds(self, job):
        return self.past.find_seconds(job.kind, job.predicted_seconds)


@pytest.mark.parametrize("callers", [("ada",), ("ada", "bob", "eve")], ids=["one", "three"])
@pytest.mark.parametrize(("load", "most_error"), [(0.5, 0.15), (0.8, 0.15), (1.1, 0.25)])
def test_nine_of_ten_jobs_end_in_the_interval_that_was_told(load, most_error, callers):
    covered, errors, widths = [], [], []
    for seed in range(3):
        service = Service(seed, load, callers)
        service.run()
        for job in service.jobs[100:]:
            told, end = service.told[job][1], service.ends[job]
            covered.append(told.low <= end <= told.high)
            errors.append(abs(told.at - end) / (end - job.since))
            widths.append((told.high - told.low) / (told.at - job.since))
    assert 0.85 <= np.mean(covered) <= 0.95
    assert np.median(errors) <= most_error
    assert np.median(widths) <= 2
