"""What neither a room nor a way may pass. A change that makes one smaller lowers its limit."""

from tests.house.ways import Way

ROOM_LINES = {
    "benchmarks": 5_170,
    "clients": 3_176,
    "cpu, native": 3_695,
    "deploy": 952,
    "docs": 1_520,
    "kernels": 10_873,
    "lab": 4_795,
    "page": 5_230,
    "scheduler": 10_587,
    "service": 27_375,
    "tests": 38_624,
    "wavetrim": 245,
}

WAYS = {
    "wavetrim.matmul, 300², CPU": Way(files=20, functions=48),
    "wavetrim.plan, new shape": Way(files=21, functions=130),
    "POST /v1/matmul, 64²": Way(files=44, functions=158),
    "POST /v1/matmul, 2048²": Way(files=47, functions=214),
    "job of 300², POST to result": Way(files=81, functions=384),
}
"""Without a GPU; on a crowded machine some more run, as products become slow."""
