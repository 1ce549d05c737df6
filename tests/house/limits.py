"""What neither a room nor a way may pass. A change that makes one smaller lowers its limit."""

from typing import Final

from tests.house.ways import Way

ROOM_LINES: Final = {
    "benchmarks": 5_260,
    "clients": 3_435,
    "cpu, native": 3_876,
    "deploy": 955,
    "docs": 1_545,
    "kernels": 11_810,
    "lab": 4_855,
    "page": 5_500,
    "scheduler": 10_690,
    "service": 28_050,
    "tests": 41_070,
    "wavetrim": 245,
}

WAYS: Final = {
    "wavetrim.matmul, 300², CPU": Way(files=20, functions=48),
    "wavetrim.plan, new shape": Way(files=21, functions=130),
    "POST /v1/matmul, 64²": Way(files=54, functions=202),
    "POST /v1/matmul, 2048²": Way(files=58, functions=255),
    "job of 300², POST to result": Way(files=97, functions=406),
}
"""Without a GPU; on a crowded machine some more run, as products become slow."""
