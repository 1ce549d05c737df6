"""What neither a room nor a way may pass. A change that makes one smaller lowers its limit."""

from typing import Final

from tests.house.ways import Way

ROOM_LINES: Final = {
    "benchmarks": 4_890,
    "clients": 3_707,
    "cpu, native": 4_357,
    "deploy": 975,
    "docs": 1_545,
    "kernels": 12_013,
    "lab": 4_610,
    "page": 5_682,
    "scheduler": 14_788,
    "service": 29_897,
    "tests": 51_735,
    "wavetrim": 258,
}

WAYS: Final = {
    "wavetrim.matmul, 300², CPU": Way(files=15, functions=34),
    "wavetrim.plan, new shape": Way(files=39, functions=220),
    "POST /v1/matmul, 64²": Way(files=60, functions=170),
    "POST /v1/matmul, 2048²": Way(files=60, functions=243),
    "job of 300², POST to result": Way(files=99, functions=352),
}
"""Without a GPU."""
