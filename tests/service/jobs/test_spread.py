"""A product in parts: how the parts are named, and which of them go elsewhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.service.jobs.silent_cluster import SilentCluster
from wavetrim.scheduler.engine.messages import Message, Operand, RunRequest
from wavetrim.scheduler.planning.placing import Share
from wavetrim.service.engine.engine import Engine
from wavetrim.service.engine.fleet import Fleet
from wavetrim.service.jobs.lanes.spread import Spread
from wavetrim.service.settings import Settings


class Noting(Engine):
    """An engine that is asked for parts, and computes none."""

    ready = True

    def __init__(self, folder: Path) -> None:
        super().__init__(Settings(data_dir=folder))
        self.asked: list[str] = []

    def start_run(self, message: Message, take: Callable[[Message], None]) -> None:
        self.asked.append(message["job"])


def test_no_try_of_a_job_has_parts_of_the_names_of_another(tmp_path: Path) -> None:
    """A node may still end the parts of a try, or be told to, when the next one begins."""
    engine = Noting(tmp_path)
    operand = Operand(1, 0, 10, 10, "float32")
    request = RunRequest("a-job", operand, operand, None, operand)
    shares = [Share(engine.id, range(5), 1.0), Share(engine.id, range(5, 10), 1.0)]
    for _ in range(2):
        spread = Spread(
            request, Fleet(engine), choose=lambda _rows: (), begun=lambda *_: True,
            ended=lambda *_: None, take=_refuse,
        )  # fmt: skip
        spread.start(shares)
    assert len(set(engine.asked)) == 4
    tries = [name.rpartition("-")[0] for name in engine.asked]
    assert tries[0] == tries[1] != tries[2] == tries[3]
    assert all(name.startswith("a-job.") for name in tries)


@pytest.mark.parametrize("stopped", [False, True])
def test_rows_of_a_lost_node_go_elsewhere_unless_the_product_was_stopped(
    tmp_path: Path, stopped: bool
) -> None:
    engine, cluster = Noting(tmp_path), SilentCluster(tmp_path)
    operand, taken = Operand(1, 0, 10, 10, "float32"), list[Message]()
    spread = Spread(
        RunRequest("a-job", operand, operand, None, operand), Fleet(engine, cluster),
        choose=lambda rows: [Share(engine.id, rows, 1.0)], begun=lambda *_: True,
        ended=lambda *_: None, take=taken.append,
    )  # fmt: skip
    spread.start([Share("node 0", range(10), 1.0)])
    if stopped:
        spread.cancel()
    cluster.lose_parts("its engine was ended")
    assert len(engine.asked) == (0 if stopped else 1)
    assert [one["type"] for one in taken] == (["cancelled"] if stopped else [])


def _refuse(message: Any) -> None:
    raise AssertionError(f"nothing has ended: {message}")
