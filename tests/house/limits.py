"""What neither a room nor a way may pass. A change that makes one smaller lowers its limit."""

from typing import Final

from tests.house.ways import Way

ROOM_LINES: Final = {
    "benchmarks": 5_280,
    "clients": 3_500,
    "cpu, native": 3_840,
    "deploy": 980,
    "docs": 1_544,
    "kernels": 11_816,
    "lab": 4_861,
    "page": 5_500,
    "scheduler": 11_280,
    "service": 29_440,
    "tests": 44_062,
    "wavetrim": 260,
}

WAYS: Final = {
    "wavetrim.matmul, 300², CPU": Way(files=23, functions=52),
    "wavetrim.plan, new shape": Way(files=21, functions=120),
    "POST /v1/matmul, 64²": Way(files=60, functions=185),
    "POST /v1/matmul, 2048²": Way(files=65, functions=270),
    "job of 300², POST to result": Way(files=106, functions=430),
}
"""Without a GPU; on a crowded machine some more run, as products become slow."""
