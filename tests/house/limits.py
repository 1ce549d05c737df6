"""What neither a room nor a way may pass. A change that makes one smaller lowers its limit."""

from tests.house.ways import Way

ROOM_LINES = {
    "benchmarks": 4_801,
    "clients": 3_064,
    "cpu, native": 3_703,
    "deploy": 911,
    "docs": 1_519,
    "kernels": 10_500,
    "lab": 4_718,
    "page": 5_230,
    "scheduler": 10_209,
    "service": 23_634,
    "tests": 33_814,
    "wavetrim": 245,
}

WAYS = {
    "wavetrim.matmul, 300², CPU": Way(files=9, functions=32),
    "wavetrim.plan, new shape": Way(files=19, functions=121),
    "POST /v1/matmul, 64²": Way(files=33, functions=126),
    "POST /v1/matmul, 2048²": Way(files=33, functions=170),
    "job of 300², POST to result": Way(files=54, functions=305),
}
"""Without a GPU; on a crowded machine some more run, as products become slow."""
