"""What neither a room nor a way may pass. A change that makes one smaller lowers its limit."""

from typing import Final

from tests.house.ways import Way

ROOM_LINES: Final = {
    "benchmarks": 5_255,
    "clients": 3_435,
    "cpu, native": 3_876,
    "deploy": 952,
    "docs": 1_520,
    "kernels": 11_160,
    "lab": 4_795,
    "page": 5_230,
    "scheduler": 10_812,
    "service": 26_865,
    "tests": 39_983,
    "wavetrim": 245,
}

WAYS: Final = {
    "wavetrim.matmul, 300², CPU": Way(files=20, functions=48),
    "wavetrim.plan, new shape": Way(files=21, functions=130),
    "POST /v1/matmul, 64²": Way(files=45, functions=157),
    "POST /v1/matmul, 2048²": Way(files=49, functions=215),
    "job of 300², POST to result": Way(files=82, functions=371),
}
"""Without a GPU; on a crowded machine some more run, as products become slow."""
