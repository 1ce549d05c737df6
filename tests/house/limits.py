"""What neither a room nor a way may pass. A change that makes one smaller lowers its limit."""

from tests.house.ways import Way

ROOM_LINES = {
    "benchmarks": 4_934,
    "clients": 3_064,
    "cpu, native": 3_658,
    "deploy": 953,
    "docs": 1_526,
    "kernels": 10_774,
    "lab": 4_718,
    "page": 5_230,
    "scheduler": 10_270,
    "service": 23_924,
    "tests": 33_885,
    "wavetrim": 245,
}

WAYS = {
    "wavetrim.matmul, 300², CPU": Way(files=9, functions=32),
    "wavetrim.plan, new shape": Way(files=20, functions=124),
    "POST /v1/matmul, 64²": Way(files=34, functions=131),
    "POST /v1/matmul, 2048²": Way(files=33, functions=170),
    "job of 300², POST to result": Way(files=54, functions=311),
}
"""Without a GPU; on a crowded machine some more run, as products become slow."""
