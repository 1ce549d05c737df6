"""Exercises of the wave explorer: a guess before a measurement, questions and their answers."""

import json
from urllib.parse import urlencode

import pytest

from tests.browsers import go, read, show, show_anew
from tests.page.explorer import FILE, MEASURED, SPLIT


def test_a_measurement_is_hidden_until_a_guess_is_made(page):
    show(page, f"{FILE}{MEASURED}")
    points = "document.querySelectorAll('#curve circle[stroke]').length"
    assert page.run(points) == 0
    go(page, "document.getElementById('guess-f').value = 500; "
             "document.querySelector('#guess form').requestSubmit()")  # fmt: skip
    assert page.run(points) > 8
    assert "Nearest to your guess of 500" in read(page, "#revealed")
    assert "guess=500" in page.run("location.hash")


def test_a_measured_product_is_shown_on_the_machine_as_it_was_measured(page):
    show(page, f"{FILE}#device=T4&threads=3&linkrate=10&rate=700&gpus=2")
    go(page, "(() => { const one = document.getElementById('sweep'); one.value = '0'; "
             "one.dispatchEvent(new Event('change', { bubbles: true })); })()")  # fmt: skip
    address = page.run("location.hash")
    assert "device=host-" in address
    assert not any(f"{name}=" in address for name in ("threads", "linkrate", "rate", "gpus"))


ANSWERS = {
    1: ("5", "4"), 2: ("wave", "copies"), 3: ("640", "208"), 4: ("448", "2000"),
    5: ("more", "less"), 6: ("copy out", "kernel"), 7: ("k", "size"), 8: ("1024", "0"),
}  # fmt: skip


@pytest.mark.parametrize("number", ANSWERS)
def test_an_exercise_checks_its_answer(page, number):
    show(page, f"{FILE}{SPLIT}")
    go(page, f"document.querySelectorAll('.exercises button')[{number - 1}].click()")
    question = read(page, ".question")
    assert question.endswith(("?", ".)"))
    assert "undefined" not in question
    assert "NaN" not in question
    right, wrong = ANSWERS[number]
    for answer, verdict in ((wrong, "Not so."), (right, "Right.")):
        base = page.run("location.hash").split("&answer=")[0]
        address = f"{base}&{urlencode({'answer': answer})}"
        go(page, f"location.hash = {json.dumps(address)}")
        told = read(page, ".verdict")
        assert told.startswith(verdict), told
    assert page.problems == []


def test_the_first_exercise_gives_a_hint_and_after_three_tries_the_answer(page):
    show_anew(page, FILE)
    go(page, "document.querySelector('#words button').click()")
    verdict = "document.querySelector('.verdict').textContent"
    for answer in (4, 6, 7):
        go(page, f"document.getElementById('answer').value = {answer}; "
                 "document.querySelector('#exercise form').requestSubmit()")  # fmt: skip
        assert page.run(verdict).startswith("Not so. ")
        is_over = answer == 7
        assert ("so there are 5 waves" in page.run(verdict)) is is_over
        assert ("Hint: " in page.run(verdict)) is not is_over
        assert page.run("document.getElementById('headline').checkVisibility()") is is_over


def test_an_exercise_keeps_the_focus(page):
    show(page, f"{FILE}{SPLIT}")
    focused = "document.activeElement.closest('#exercise, .exercises')?.matches('#exercise')"
    steps = (
        (".exercises li:nth-child(2) button", False),
        (".choices button", True),
        ("#exercise .row button:last-child", True),  # the next exercise
        ("#exercise .row:last-child button", False),  # it is closed
    )
    for button, is_in_card in steps:
        found = f"document.querySelector({json.dumps(button)})"
        go(page, f"{found}.focus(); {found}.click()")
        assert page.run(focused) is is_in_card, button


def test_a_measurement_is_not_shown_beside_another_kernel_or_machine(page):
    for changed in ("kernel=shared", "accuracy=strict", "threads=1", "rate=9", "linkrate=1"):
        show(page, f"{FILE}{MEASURED}&{changed}&guess=500")
        assert not page.run("document.getElementById('guess').checkVisibility()"), changed
