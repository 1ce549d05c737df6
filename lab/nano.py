"""The idea of wavetrim in 150 lines: C[M,N] = A[M,K] · B[K,N] by a GPU and the CPU at once.

A GPU computes C in tiles, as many at a time as it has slots: a *wave*. The last wave is partly
filled, and takes as long as a full one. So the CPU computes the last F rows of C, and the GPU the
others. Too small an F removes no wave; too large an F makes the CPU the slower side.

`python lab/nano.py [M]` measures both sides, chooses F, and tries other values of F. Without CuPy
or a GPU it simulates one. Copies to the GPU and back are not timed, to show the waves.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each of our threads computes by itself

import numpy as np

Matrix = np.ndarray[Any, Any]
W: Final = 32  # width of a tile of C, which a block of W x W threads computes
THREADS: Final = os.cpu_count() or 1
POOL: Final = ThreadPoolExecutor(THREADS)

KERNEL: Final = r"""
extern "C" __global__ void multiply(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float tile_a[W][W], tile_b[W][W];
    const int y = threadIdx.y, x = threadIdx.x;
    const int row = blockIdx.y * W + y, column = blockIdx.x * W + x;
    float sum = 0;
    for (int step = 0; step < k; step += W) {
        tile_a[y][x] = row < m && step + x < k ? a[(size_t)row * k + step + x] : 0;
        tile_b[y][x] = step + y < k && column < n ? b[(size_t)(step + y) * n + column] : 0;
        __syncthreads();  // both tiles are complete
        for (int i = 0; i < W; i++) sum += tile_a[y][i] * tile_b[i][x];
        __syncthreads();  // no thread reads them any more
    }
    if (row < m && column < n) c[(size_t)row * n + column] = sum;
}
"""


def count_waves(rows: int, n: int, slots: int) -> int:
    """Waves of rows[rows,n] of C."""
    tiles = -(-rows // W) * -(-n // W)
    return -(-tiles // slots)


def choose_f(m: int, n: int, slots: int, wave_seconds: float, row_seconds: float) -> int:
    """The smallest F for which the slower side ends first."""
    gpu_seconds = [count_waves(m - f, n, slots) * wave_seconds for f in range(m + 1)]
    return min(range(m + 1), key=lambda f: max(gpu_seconds[f], f * row_seconds))


class Gpu:
    """A real GPU. One tile keeps a multiprocessor busy, so each multiprocessor is a slot."""

    def __init__(self) -> None:
        import cupy

        self.cupy, self.began, self.ended = cupy, cupy.cuda.Event(), cupy.cuda.Event()
        found = cupy.cuda.runtime.getDeviceProperties(0)
        self.name, self.slots = found["name"].decode(), int(found["multiProcessorCount"])
        self.kernel = cupy.RawKernel(KERNEL, "multiply", options=(f"-DW={W}",))

    def place(self, a: Matrix, b: Matrix, row_seconds: float) -> None:  # noqa: ARG002
        """Copy A and B to the GPU."""
        self.a, self.b = self.cupy.asarray(a), self.cupy.asarray(b)

    def launch(self, rows: int) -> None:
        """Begin with the first rows of C; returns at once."""
        k, n = self.b.shape
        self.c = self.cupy.empty((rows, n), np.float32)
        self.began.record()
        if rows:
            sizes = (np.int32(rows), np.int32(n), np.int32(k))
            self.kernel((-(-n // W), -(-rows // W)), (W, W), (self.a, self.b, self.c, *sizes))
        self.ended.record()

    def finish(self) -> tuple[float, Matrix]:
        """Wait for these rows; returns the kernel's seconds, and the rows."""
        self.ended.synchronize()
        seconds = self.cupy.cuda.get_elapsed_time(self.began, self.ended) / 1e3
        return seconds, self.cupy.asnumpy(self.c)


class SimulatedGpu:
    """Sleeps as long as its waves would take; then NumPy computes its rows, which is not timed."""

    name, slots = "a SIMULATED GPU, whose seconds are made up,", 40

    def place(self, a: Matrix, b: Matrix, row_seconds: float) -> None:
        """Store A and B. A wave takes a little longer than the CPU takes for a row of tiles."""
        self.a, self.b, self.wave_seconds = a, b, 1.2 * W * row_seconds

    def launch(self, rows: int) -> None:
        """Begin with the first rows of C; returns at once."""
        self.rows, waves = rows, count_waves(rows, self.b.shape[1], self.slots)
        self.seconds, self.began = waves * self.wave_seconds, time.perf_counter()

    def finish(self) -> tuple[float, Matrix]:
        """Wait for these rows; returns the seconds of their waves, and the rows."""
        time.sleep(max(0.0, self.began + self.seconds - time.perf_counter()))
        return self.seconds, self.a[: self.rows] @ self.b


def multiply_rows(a: Matrix, b: Matrix, c: Matrix) -> float:
    """C = A·B by threads, each with a block of columns; returns the seconds."""
    began, width = time.perf_counter(), -(-b.shape[1] // THREADS)
    blocks = [np.s_[:, left : left + width] for left in range(0, b.shape[1], width)]
    list(POOL.map(lambda block: np.matmul(a, b[block], out=c[block]), blocks))
    return time.perf_counter() - began


def multiply(gpu: Any, a: Matrix, b: Matrix, c: Matrix, f: int) -> tuple[float, float]:
    """C = A·B by both sides at the same time; returns the seconds of GPU and CPU."""
    rows = len(a) - f
    gpu.launch(rows)
    cpu_seconds = multiply_rows(a[rows:], b, c[rows:])
    gpu_seconds, c[:rows] = gpu.finish()
    return gpu_seconds, cpu_seconds


def sweep(gpu: Any, m: int, n: int, k: int) -> None:
    """Measure both sides, choose F, and print the seconds over F."""
    rng = np.random.default_rng(0)
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    c, exact = np.empty((m, n), np.float32), a.astype(np.float64) @ b
    print(f"C[{m},{n}] = A[{m},{k}] · B[{k},{n}] on {gpu.name} and {THREADS} threads of the CPU")
    row_seconds = min(multiply_rows(a[:W], b, c[:W]) for _ in range(5)) / W
    gpu.place(a, b, row_seconds)
    whole_seconds = min(multiply(gpu, a, b, c, 0)[0] for _ in range(3))
    wave_seconds = whole_seconds / count_waves(m, n, gpu.slots)
    chosen = choose_f(m, n, gpu.slots, wave_seconds, row_seconds)
    print(f"one wave: {gpu.slots} tiles, {wave_seconds * 1e3:.2f} ms\n   F  waves  GPU ms  CPU ms")
    for f in sorted({*range(0, m // 2 + 1, W), chosen}):
        seconds = min((multiply(gpu, a, b, c, f) for _ in range(3)), key=max)
        bar = "#" * min(50, round(30 * max(seconds) / whole_seconds)) + " <- chosen" * (f == chosen)
        times = "".join(f"{1e3 * one:8.2f}" for one in seconds)
        right = "PASSED" if (abs(c / exact - 1) <= k * 2**-24).all() else "FAILED"  # K roundings
        print(f"{f:4}{count_waves(m - f, n, gpu.slots):7}{times} {right} {bar}")


if __name__ == "__main__":
    try:
        found: Any = Gpu()
    except Exception:  # no CuPy, or no GPU
        found = SimulatedGpu()
    sweep(found, int(sys.argv[1]) if sys.argv[1:] else 21 * W, found.slots // 5 * W, 8192)
