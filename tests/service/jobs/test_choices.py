"""The lanes of a product are found once a shape; nobody waits for what is only out of date."""

import asyncio
from pathlib import Path

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.planning.lanes import CPU
from wavetrim.service.engine.engine import Engine
from wavetrim.service.jobs.lanes.choices import Choices
from wavetrim.service.jobs.lanes.turn import Turn
from wavetrim.service.settings import Settings

PLACE = Operand(1, 0, 900, 900, "float32")


async def make_turn(b_key: str) -> Turn:
    return Turn(RunRequest("job", PLACE, PLACE, None, PLACE, b_key=b_key), (), None)


def test_choices_are_those_of_the_shape_until_it_is_known_where_b_is(tmp_path: Path) -> None:
    choices = Choices(Engine(Settings(data_dir=tmp_path)))
    mine, other = asyncio.run(make_turn("mine")), asyncio.run(make_turn("other"))
    assert choices.find_kept(mine) is None
    (found,) = choices.find(mine.request)
    assert found.lane == {CPU}
    assert choices.find_kept(mine) == choices.find_kept(other) == (found,)
    assert choices.is_fresh(mine)
    choices.note_residents("mine", [0])
    assert not choices.is_fresh(mine)
    assert choices.is_fresh(other)
    assert choices.find_kept(mine) == (found,)
    choices.find(mine.request)
    assert choices.is_fresh(mine)
    choices.note_residents("mine", [])
    assert choices.find_residents(mine.request) == frozenset()
