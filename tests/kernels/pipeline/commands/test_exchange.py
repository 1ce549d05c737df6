"""The exchange of B: pieces cover it, and GPUs that need different parts exchange none."""

from dataclasses import replace

import pytest

from wavetrim.kernels.pipeline.commands.exchange import Seat, assign_seats
from wavetrim.kernels.pipeline.places import place_steps
from wavetrim.kernels.schedule.panels import PanelProblem
from wavetrim.kernels.schedule.steps import Cut, cut_steps

PROBLEM = PanelProblem(256, 512, 1024, 4, tile_m=64, tile_n=64, tile_k=8, slots=132)
CUT = Cut(128, 64, 64, depth=256, a_depth=256, columns=256, rest_columns=128)


def place(problem=PROBLEM, cut=CUT, memory_bytes=1 << 30, start=0):
    return place_steps(cut_steps(problem, cut, memory_bytes), start)


@pytest.mark.parametrize("gpus", [1, 2, 3, 8])
@pytest.mark.parametrize("depth", [1, 2, 64, 1000])
def test_pieces_cover_the_rows_of_a_part_and_are_about_equal(gpus, depth):
    part = range(100, 100 + depth)
    seat = Seat(0, (0,) * gpus)
    pieces = [seat.cut_piece(part, number) for number in range(gpus)]
    assert [row for piece in pieces for row in piece] == list(part)
    assert max(map(len, pieces)) - min(map(len, pieces)) <= 1


def test_each_gpu_begins_with_another_one():
    assert [Seat(number, (0,) * 3).others for number in range(3)] == [(1, 2), (2, 0), (0, 1)]


def test_gpus_that_need_the_same_parts_exchange_b_also_with_other_rows():
    first, second = place(), place(replace(PROBLEM, m=200), start=1 << 40)
    seats = assign_seats((0, 0), (first, second))
    assert seats is not None
    assert seats[0].places == seats[1].places == (first[0].b.pointer, second[0].b.pointer)


def test_gpus_that_need_other_parts_fetch_all_of_b():
    other = place(cut=CUT._replace(columns=128))
    assert assign_seats((0, 0), (place(), other)) is None


def test_gpus_without_memory_for_all_of_b_fetch_all_of_it():
    steps = place(memory_bytes=2 << 20)
    assert assign_seats((0, 0), (steps, steps)) is None


def test_a_b_that_is_there_is_not_exchanged():
    steps = place(replace(PROBLEM, b_resident=True))
    assert assign_seats((0, 0), (steps, steps)) is None
