"""The lanes of a product are found once a shape; nobody waits for what is only out of date."""

import asyncio

from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.planning.device_sets import CPU
from wavetrim.service.engine.engine import Engine
from wavetrim.service.jobs.lanes.host_lanes import HostLanes
from wavetrim.service.jobs.lanes.running import Load
from wavetrim.service.jobs.plans import Plans
from wavetrim.service.jobs.queue import Attempt
from wavetrim.service.settings import Settings

PLACE = Operand(1, 0, 900, 900, "float32")


async def make_attempt(b_key):
    return Attempt(RunRequest("job", PLACE, PLACE, None, PLACE, b_key=b_key))


def test_choices_are_those_of_the_shape_until_it_is_known_where_b_is(tmp_path):
    engine = Engine(Settings(data_dir=tmp_path))
    lanes = HostLanes(engine, Load(), Plans(engine))
    mine, other = asyncio.run(make_attempt("mine")), asyncio.run(make_attempt("other"))
    assert lanes.find_kept(mine) is None
    (found,) = lanes.find(mine.request)
    assert found.device_set == {CPU}
    assert lanes.find_kept(mine) == lanes.find_kept(other) == (found,)
    assert lanes.is_fresh(mine)
    lanes.learn(mine, {"b_on": [0]})
    assert not lanes.is_fresh(mine)
    assert lanes.is_fresh(other)
    assert lanes.find_kept(mine) == (found,)
    lanes.find(mine.request)
    assert lanes.is_fresh(mine)
    lanes.learn(mine, {"b_on": []})
    assert lanes.is_fresh(mine)
    assert not lanes.prefers_gpu(mine)
