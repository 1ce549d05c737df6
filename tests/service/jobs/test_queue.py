"""The queue: whose turn it is, as callers come and go."""

import asyncio

import pytest

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.service.clock import read_clock
from wavetrim.service.jobs.lanes.attempt import Attempt
from wavetrim.service.jobs.queue import Queue

PLACE = Operand(1, 0, 900, 900, "float32")


def run(scenario):
    async def start():
        scenario()

    asyncio.run(start())


def add(queue, caller, seconds=1.0, *, age=0.0):
    request = RunRequest("job", PLACE, PLACE, None, PLACE)
    since = read_clock() - age
    attempt = Attempt(request, caller=caller, since=since, predicted_seconds=seconds)
    queue.add(attempt)
    return attempt


def begin_next(queue):
    attempt = queue.list_first(1)[0]
    queue.begin(attempt)
    return attempt.caller


def test_a_caller_that_comes_late_is_neither_last_nor_alone():
    def scenario():
        queue = Queue()
        for _ in range(60):
            add(queue, "ada")
        for _ in range(30):
            begin_next(queue)
        for _ in range(9):
            add(queue, "bob")
        callers = [begin_next(queue) for _ in range(10)]
        assert 4 <= callers.count("bob") <= 6
        assert set(callers[:2]) == {"ada", "bob"}

    run(scenario)


def test_turns_are_not_saved_up_while_others_wait():
    def scenario():
        queue = Queue()
        first = add(queue, "bob")
        for _ in range(40):
            add(queue, "ada")
        queue.begin(first)
        for _ in range(20):
            begin_next(queue)
        for _ in range(20):
            add(queue, "bob")
        callers = [begin_next(queue) for _ in range(10)]
        assert 4 <= callers.count("bob") <= 6

    run(scenario)


def test_what_was_computed_while_nobody_waited_costs_no_turn():
    def scenario():
        queue = Queue()
        for _ in range(50):
            add(queue, "ada")
            begin_next(queue)
        add(queue, "ada", age=1.0)
        add(queue, "bob")
        assert begin_next(queue) == "ada"

    run(scenario)


@pytest.mark.parametrize("begins", [True, False])
def test_what_has_left_is_not_counted(begins):
    def scenario():
        queue = Queue()
        attempts = [add(queue, "ada", seconds, age=seconds) for seconds in (1.0, 2.0, 1.0)]
        queue.add(attempts[0])  # it waits already
        assert len(queue) == 3
        leave = queue.begin if begins else queue.remove
        leave(attempts[0])
        queue.remove(attempts[0])
        assert queue.list_all() in ([attempts[1], attempts[2]], [attempts[2], attempts[1]])
        for attempt in attempts[1:]:
            leave(attempt)
        assert (len(queue), queue.list_all()) == (0, [])

    run(scenario)
