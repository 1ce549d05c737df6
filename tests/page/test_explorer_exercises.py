"""Exercises of the wave explorer: a guess before a measurement, questions and their answers."""

import json
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest

from docs.browser import Page
from tests.browsers import go, show
from tests.page.explorer import FILE, store_cpu
from tests.server import Start

SPLIT = "#m=4096&n=4096&k=4096&dtype=float64&device=T4&threads=2"


MEASURED = "#m=4096&n=4096&k=4096&dtype=float32&memory=pageable&device=host-h200&sms=8"


def test_a_measurement_is_hidden_until_a_guess_is_made(page: Page) -> None:
    show(page, f"{FILE}{MEASURED}")
    points = "document.querySelectorAll('#curve circle[stroke]').length"
    assert page.run(points) == 0
    go(page, "document.getElementById('guess-f').value = 500; "
             "document.querySelector('#guess form').requestSubmit()")  # fmt: skip
    assert page.run(points) > 8
    assert "Nearest to your guess of 500" in page.run(
        "document.getElementById('revealed').textContent"
    )
    assert "guess=500" in page.run("location.hash")


def test_a_measured_product_is_shown_on_the_machine_as_it_was_measured(page: Page) -> None:
    show(page, f"{FILE}#device=T4&threads=3&linkrate=10&rate=700&gpus=2")
    go(page, "(() => { const one = document.getElementById('sweep'); one.value = '0'; "
             "one.dispatchEvent(new Event('change', { bubbles: true })); })()")  # fmt: skip
    address = page.run("location.hash")
    assert "device=host-" in address
    assert not any(f"{name}=" in address for name in ("threads", "linkrate", "rate", "gpus"))


ANSWERS = {
    1: ("5", "4"), 2: ("wave", "copies"), 3: ("640", "208"), 4: ("448", "2000"),
    5: ("more", "less"), 6: ("copy out", "kernel"), 7: ("k", "size"), 8: ("896", "0"),
}  # fmt: skip


@pytest.mark.parametrize("number", ANSWERS)
def test_an_exercise_checks_its_answer(page: Page, number: int) -> None:
    show(page, f"{FILE}{SPLIT}")
    go(page, f"document.querySelectorAll('.exercises button')[{number - 1}].click()")
    question = page.run("document.querySelector('.question').textContent")
    assert question.endswith(("?", ".)"))
    assert "undefined" not in question
    assert "NaN" not in question
    right, wrong = ANSWERS[number]
    for answer, verdict in ((wrong, "Not so."), (right, "Right.")):
        base = page.run("location.hash").split("&answer=")[0]
        address = f"{base}&{urlencode({'answer': answer})}"
        go(page, f"location.hash = {json.dumps(address)}")
        told = page.run("document.querySelector('.verdict').textContent")
        assert told.startswith(verdict), told
    assert page.problems == []


def test_exercises_have_the_same_answers_beside_another_cpu(
    page: Page, start_server: Start, tmp_path: Path
) -> None:
    store_cpu(tmp_path, gflops=900)
    with start_server(profile_dir=tmp_path, cpu_threads=2) as server:
        for number, (right, _) in ANSWERS.items():
            show(page, f"{server.url}/{SPLIT}")
            go(page, f"document.querySelectorAll('.exercises button')[{number - 1}].click()")
            address = f"{page.run('location.hash')}&{urlencode({'answer': right})}"
            go(page, f"location.hash = {json.dumps(address)}")
            told = page.run("document.querySelector('.verdict').textContent")
            assert told.startswith("Right."), told
    assert page.problems == []


def test_an_exercise_keeps_the_chosen_f_back_until_it_is_answered(page: Page) -> None:
    show(page, f"{FILE}#device=T4&threads=4&exercise=5")
    visible = "document.getElementById('f-number').checkVisibility()"
    assert not page.run(visible)
    go(page, "document.querySelector('.choices button').click()")
    assert page.run(visible)


@pytest.mark.parametrize(("number", "f"), [(1, 640), (3, 640), (6, 16384), (7, 1000)])
def test_a_moved_slider_changes_no_answer(page: Page, number: int, f: int) -> None:
    show(page, f"{FILE}{SPLIT}")
    go(page, f"document.querySelectorAll('.exercises button')[{number - 1}].click()")
    base = re.sub("&f=[0-9]+", "", page.run("location.hash"))
    for answer, verdict in zip(ANSWERS[number], ("Right.", "Not so."), strict=True):
        show(page, f"{FILE}{base}&f={f}")
        show(page, f"{FILE}{base}&{urlencode({'f': f, 'answer': answer})}")
        told = page.run("document.querySelector('.verdict').textContent")
        assert told.startswith(verdict), told


def test_the_button_that_answers_an_exercise_is_hidden_until_it_is_answered(page: Page) -> None:
    show(page, f"{FILE}{SPLIT}")
    go(page, "document.querySelectorAll('.exercises button')[2].click()")
    button = (
        "[...document.querySelectorAll('.slider button')]"
        ".find(({ textContent }) => textContent === 'One wave less').hidden"
    )
    assert page.run(button)
    go(page, "document.getElementById('answer').value = 1; "
             "document.querySelector('#exercise form').requestSubmit()")  # fmt: skip
    assert not page.run(button)


def test_an_exercise_keeps_the_focus(page: Page) -> None:
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


def test_a_measurement_is_not_shown_beside_another_kernel_or_machine(page: Page) -> None:
    for changed in ("kernel=shared", "accuracy=strict", "threads=1", "rate=9", "linkrate=1"):
        show(page, f"{FILE}{MEASURED}&{changed}&guess=500")
        assert not page.run("document.getElementById('guess').checkVisibility()"), changed


def test_an_answer_that_is_no_number_is_wrong(page: Page) -> None:
    show(page, f"{FILE}{MEASURED}&exercise=8&answer=x")
    assert page.run("document.querySelector('.verdict').textContent").startswith("Not so.")
    assert page.problems == []


def test_one_more_column_costs_a_wave(page: Page) -> None:
    show(page, f"{FILE}{SPLIT}")
    go(page, "document.querySelectorAll('.exercises button')[1].click()")
    question = page.run("document.querySelector('.question').textContent")
    (share,) = re.findall(r"costs ([0-9.]+)% of the time", question)
    assert 2.5 < float(share) < 3.5
