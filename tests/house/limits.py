"""What neither a room nor a way may pass. A change that makes one smaller lowers its limit."""

from typing import Final

from tests.house.ways import Way

ROOM_LINES: Final = {
    "benchmarks": 5_280,
    "clients": 3_500,
    "cpu, native": 3_885,
    "deploy": 980,
    "docs": 1_545,
    "kernels": 11_855,
    "lab": 4_861,
    "page": 5_500,
    "scheduler": 11_465,
    "service": 28_380,
    "tests": 42_400,
    "wavetrim": 260,
}

WAYS: Final = {
    "wavetrim.matmul, 300², CPU": Way(files=23, functions=52),
    "wavetrim.plan, new shape": Way(files=22, functions=130),
    "POST /v1/matmul, 64²": Way(files=55, functions=205),
    "POST /v1/matmul, 2048²": Way(files=60, functions=262),
    "job of 300², POST to result": Way(files=98, functions=412),
}
"""Without a GPU; on a crowded machine some more run, as products become slow."""
