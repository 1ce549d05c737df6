"""What neither a room nor a way may pass. A change that makes one smaller lowers its limit."""

from tests.house.ways import Way

ROOM_LINES = {
    "benchmarks": 4_934,
    "clients": 3_084,
    "cpu, native": 3_564,
    "deploy": 953,
    "docs": 1_526,
    "kernels": 10_823,
    "lab": 4_718,
    "page": 5_230,
    "scheduler": 10_268,
    "service": 23_981,
    "tests": 34_297,
    "wavetrim": 245,
}

WAYS = {
    "wavetrim.matmul, 300², CPU": Way(files=9, functions=32),
    "wavetrim.plan, new shape": Way(files=20, functions=124),
    "POST /v1/matmul, 64²": Way(files=36, functions=135),
    "POST /v1/matmul, 2048²": Way(files=38, functions=189),
    "job of 300², POST to result": Way(files=58, functions=331),
}
"""Without a GPU; on a crowded machine some more run, as products become slow."""
