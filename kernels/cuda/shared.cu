// shared: W×W tiles of A and of B in shared memory.
//
// In each of K/W steps the block loads one tile of A and one of B, waits at a barrier, adds W products
// to each element, and waits again before the tiles are overwritten. A block reads each element from
// global memory once: one global read for W operations. The limit is then shared memory, which
// delivers two words for each fused multiply-add.
//
// Launch: blocks of (W, W) threads, one block for each W×W tile of C.
// Shared memory: 2·W·W elements. A row of B's tile spans W banks, so a warp reads without
// conflicts; a word of A's tile is broadcast.
#include "product.cuh"

extern "C" __global__ void __launch_bounds__(W * W) multiply(
    long long m, long long n, long long k, element alpha, const element* __restrict__ a,
    long long lda, const element* __restrict__ b, long long ldb, element beta,
    element* __restrict__ c, long long ldc)
{
    __shared__ element a_tile[W][W];
    __shared__ element b_tile[W][W];
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const unsigned tiles_per_row = (n + W - 1) / W;
    const long long row = (long long)(blockIdx.x / tiles_per_row) * W + y;
    const long long column = (long long)(blockIdx.x % tiles_per_row) * W + x;

    element sum = 0;
    for (long long step = 0; step < k; step += W) {
        // Zeros beyond the edges of A and B add nothing, so the inner loop needs no test.
        a_tile[y][x] = row < m && step + x < k ? a[row * lda + step + x] : element(0);
        b_tile[y][x] = step + y < k && column < n ? b[(step + y) * ldb + column] : element(0);
        __syncthreads();
#pragma unroll
        for (int p = 0; p < W; ++p) sum += a_tile[y][p] * b_tile[p][x];
        __syncthreads();
    }
    if (row < m && column < n) update(c + row * ldc + column, sum, alpha, beta);
}
