"""A product without progress on the GPU raises an alarm; one with progress does not."""

import threading
import time

import pytest

from wavetrim.scheduler.execution.watchdog import TIMES_EXPECTED, Watchdog


class Alarm:
    """What a watchdog calls: it remembers the call."""

    def __init__(self):
        self.rung = threading.Event()
        self.seconds = 0.0

    def __call__(self, seconds):
        self.seconds = seconds
        self.rung.set()


@pytest.mark.serial
def test_progress_and_the_end_of_a_product_raise_no_alarm():
    alarm = Alarm()
    watchdog = Watchdog(0.5, alarm)
    with watchdog.watch(expected_seconds=0.001) as watched:
        until = time.monotonic() + 0.7
        while time.monotonic() < until:
            watched.note_progress()
            time.sleep(0.01)
    assert not alarm.rung.wait(0.7)


def test_a_product_that_was_planned_to_be_slow_has_more_time():
    alarm = Alarm()
    with Watchdog(0.1, alarm).watch(expected_seconds=0.6 / TIMES_EXPECTED):
        assert not alarm.rung.wait(0.3)
        assert alarm.rung.wait(10)
    assert alarm.seconds >= 0.6


def test_a_stalled_product_is_noticed_while_another_progresses():
    alarm = Alarm()
    watchdog = Watchdog(0.3, alarm)
    with watchdog.watch(expected_seconds=0.001), watchdog.watch(expected_seconds=0.001) as other:
        until = time.monotonic() + 10
        while not alarm.rung.is_set() and time.monotonic() < until:
            other.note_progress()
            time.sleep(0.01)
    assert alarm.seconds >= 0.3
