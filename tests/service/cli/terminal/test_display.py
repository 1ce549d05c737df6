"""Tables of plans and progress bars in the terminal."""

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from tests.scheduler.profiles import find_preset_profile
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.description import describe_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.service.cli.terminal.display import make_plan_table, open_notes, show_bytes


def test_a_plan_shows_its_relays() -> None:
    profile = replace(find_preset_profile("H100 SXM x2"), peer_gbytes_per_second=250.0)
    problem = GemmProblem(16384, 16384, 256, memory="pinned")
    shown = []
    for devices in ("0", "0+1"):
        plan = choose_plan(problem, profile, PlanOptions(f=0, devices=devices))
        console = Console(width=100)
        with console.capture() as captured:
            console.print(make_plan_table(describe_plan(plan), problem.m))
        shown.append(captured.get())
    assert "relays" not in shown[0]
    assert "relays" in shown[1]
    assert "cuda:1" in shown[1]


@pytest.mark.parametrize("name", ["[red]A.npy", "[/]A.npy", ":smile:.npy", "[bold", "A[0].npy"])
def test_a_bar_shows_a_files_name_as_it_is(name: str) -> None:
    notes = open_notes()
    notes.file = shown = StringIO()
    with show_bytes(notes) as move:
        move(f"upload {name}", 5, 10)
    assert f"upload {name} " in re.sub("\x1b[^m]*m", "", shown.getvalue())
