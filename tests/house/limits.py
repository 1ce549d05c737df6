"""What neither a room nor a way may pass. A change that makes one smaller lowers its limit."""

from tests.house.ways import Way

ROOM_LINES = {
    "benchmarks": 5_171,
    "clients": 3_178,
    "cpu, native": 3_697,
    "deploy": 953,
    "docs": 1_526,
    "kernels": 10_881,
    "lab": 4_796,
    "page": 5_230,
    "scheduler": 10_596,
    "service": 25_682,
    "tests": 38_558,
    "wavetrim": 245,
}

WAYS = {
    "wavetrim.matmul, 300², CPU": Way(files=9, functions=28),
    "wavetrim.plan, new shape": Way(files=20, functions=124),
    "POST /v1/matmul, 64²": Way(files=40, functions=140),
    "POST /v1/matmul, 2048²": Way(files=44, functions=200),
    "job of 300², POST to result": Way(files=76, functions=350),
}
"""Without a GPU; on a crowded machine some more run, as products become slow."""
