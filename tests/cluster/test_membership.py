"""Which nodes are members: each once, and none that has left."""

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.ray_here import NODE_ID, RayHere

if TYPE_CHECKING:
    from wavetrim.scheduler.cluster.membership import Membership


@pytest.fixture
def told() -> list[str]:
    """The types of the messages about nodes."""
    return []


@pytest.fixture
def membership(here: RayHere, told: list[str]) -> "Membership":
    from wavetrim.scheduler.cluster.membership import Membership

    def tell(message: Any) -> None:
        told.append(message["type"])

    return Membership(tell)


def look(membership: "Membership") -> None:
    """Look once; returns when no node is being connected any more."""
    membership.look()
    while threads := [one for one in threading.enumerate() if one.name == "node-connection"]:
        for thread in threads:
            thread.join()


def test_a_node_joins_and_leaves(here: RayHere, membership: "Membership", told: list[str]) -> None:
    look(membership)
    assert told == []
    here.add_node()
    for _ in range(2):
        look(membership)
        assert told == ["node"]
    node = membership.find(NODE_ID)
    assert node is not None
    assert node.network.in_bytes_per_second > 0
    here.nodes = []
    look(membership)
    assert told == ["node", "node_gone"]
    assert membership.find(NODE_ID) is None


@pytest.mark.parametrize("call", ["describe", "measure_in", "forget"])
def test_a_node_is_connected_once_however_often_ray_is_asked_meanwhile(
    here: RayHere, membership: "Membership", told: list[str], call: str
) -> None:
    here.add_node()
    here.actor.before[call] = membership.look
    look(membership)
    assert told == ["node"]
    assert [name for name, *_ in here.actor.calls].count("describe") == 1


@pytest.mark.parametrize("call", ["describe", "measure_in", "forget"])
def test_a_node_that_leaves_while_it_is_connected_is_no_member(
    here: RayHere, membership: "Membership", told: list[str], call: str
) -> None:
    def leave() -> None:
        here.nodes = []
        membership.look()

    here.add_node()
    here.actor.before[call] = leave
    look(membership)
    assert membership.find(NODE_ID) is None
    assert told == []
    here.add_node()
    look(membership)
    assert told == ["node"]
