"""What neither a room nor a way may pass. A change that makes one smaller lowers its limit."""

from typing import Final

from tests.house.ways import Way

ROOM_LINES: Final = {
    "benchmarks": 11_225,
    "clients": 3_692,
    "cpu, native": 4_337,
    "deploy": 975,
    "docs": 1_545,
    "kernels": 12_412,
    "lab": 4_610,
    "page": 8_475,
    "scheduler": 14_872,
    "service": 31_549,
    "tests": 54_920,
    "wavetrim": 259,
}

WAYS: Final = {
    "wavetrim.matmul, 300², CPU": Way(files=15, functions=34),
    "wavetrim.plan, new shape": Way(files=40, functions=220),
    "POST /v1/matmul, 64²": Way(files=58, functions=170),
    "POST /v1/matmul, 2048²": Way(files=58, functions=240),
    "job of 300², POST to result": Way(files=99, functions=352),
}
"""Without a GPU."""
