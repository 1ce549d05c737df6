"""The house does not grow: each room's lines and each way are within their limits."""

import pytest

from tests.house.limits import ROOM_LINES, WAYS
from tests.house.rooms import count_rooms
from tests.house.ways import count_ways


@pytest.fixture(scope="module")
def ways():
    """What runs for each call on this machine."""
    return count_ways()


def test_each_room_is_within_its_lines():
    rooms = count_rooms()
    assert rooms.keys() == ROOM_LINES.keys()
    assert {name: lines for name, lines in rooms.items() if lines > ROOM_LINES[name]} == {}


@pytest.mark.parametrize("call", WAYS)
def test_a_call_passes_few_files_and_functions(ways, call):
    assert 0 < ways[call].files <= WAYS[call].files, ways[call]
    assert 0 < ways[call].functions <= WAYS[call].functions, ways[call]
