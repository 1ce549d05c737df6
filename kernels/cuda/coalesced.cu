// coalesced: like simple, but with a W×W tile of A in shared memory.
//
// A block reads each element of A from global memory once instead of W times. The W threads of a row
// read the same word of shared memory, which is a broadcast. B is still read from global memory, W
// neighbouring elements by W neighbouring threads.
//
// Launch: blocks of (W, W) threads, one block for each W×W tile of C.
// Shared memory: W·W elements.
#include "product.cuh"

extern "C" __global__ void __launch_bounds__(W * W) multiply(
    long long m, long long n, long long k, element alpha, const element* __restrict__ a,
    long long lda, const element* __restrict__ b, long long ldb, element beta,
    element* __restrict__ c, long long ldc)
{
    __shared__ element a_tile[W][W];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const unsigned tiles_per_row = (n + W - 1) / W;
    const long long row = (long long)(blockIdx.x / tiles_per_row) * W + y;
    const long long column = (long long)(blockIdx.x % tiles_per_row) * W + x;

    element sum = 0;
    for (long long step = 0; step < k; step += W) {
        // Threads outside C must stay: they load A for others and take part in barriers.
        if (row < m && step + x < k) a_tile[y][x] = a[row * lda + step + x];
        __syncthreads();
        if (row < m && column < n) {
            const int width = k - step < W ? int(k - step) : W;
            for (int p = 0; p < width; ++p) sum += a_tile[y][p] * b[(step + p) * ldb + column];
        }
        __syncthreads();
    }
    if (row < m && column < n) update(c + row * ldc + column, sum, alpha, beta);
}
