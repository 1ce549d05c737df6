"""Lanes say truly whether a product is known: it would else be planned for ever."""

from pathlib import Path

import pytest

from tests.service.jobs.silent_cluster import SilentCluster
from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.service.engine.engine import Engine
from wavetrim.service.engine.fleet import Fleet
from wavetrim.service.jobs.lanes.cluster_lanes import ClusterLanes
from wavetrim.service.jobs.plans import Plans
from wavetrim.service.settings import Settings

IMPOSSIBLE = {
    "multiprocessors without a GPU": PlanOptions(sms=3),
    "an accuracy of another type": PlanOptions(accuracy="float64"),
}


def make_lanes(folder: Path) -> ClusterLanes:
    engine = Engine(Settings(data_dir=folder))
    return ClusterLanes(Fleet(engine, SilentCluster(folder)), {}, Plans(engine))


def make_request(options: PlanOptions = NO_OPTIONS, *, cpu_only: bool = False) -> RunRequest:
    place = Operand(1, 0, 300, 300, "int64")
    return RunRequest("job", place, place, None, place, options=options, cpu_only=cpu_only)


@pytest.mark.parametrize("cpu_only", [False, True])
def test_a_product_is_known_once_it_was_estimated(tmp_path: Path, cpu_only: bool) -> None:
    lanes, request = make_lanes(tmp_path), make_request(cpu_only=cpu_only)
    assert not lanes.is_known(request)
    offers = [offer.engine for offer in lanes.find(request)]
    assert offers == (["here"] if cpu_only else ["here", "node 0"])
    assert lanes.is_known(request)
    assert not lanes.is_known(make_request(cpu_only=not cpu_only))


@pytest.mark.parametrize("options", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_product_that_no_plan_meets_is_known_too(tmp_path: Path, options: PlanOptions) -> None:
    """It goes to this machine's engine, which says what is wrong."""
    lanes, request = make_lanes(tmp_path), make_request(options)
    assert not lanes.is_known(request)
    for _ in range(2):
        assert [offer.engine for offer in lanes.find(request)] == ["here"]
        assert lanes.is_known(request)
