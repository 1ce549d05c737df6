"""Tables of plans in the terminal."""

from dataclasses import replace

from rich.console import Console

from tests.scheduler.profiles import find_preset_profile
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.description import describe_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.service.cli.terminal.display import make_plan_table


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
