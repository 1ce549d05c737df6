// naive: one thread computes one element of C, and neighbouring threads have neighbouring rows.
//
// The row of C is threadIdx.x, so accesses are not coalesced: a warp reads 32 elements of A from 32
// cache lines, and writes C likewise; all its threads read the same element of B. *simple* differs
// only in which index is the row.
//
// Launch: blocks of (W, W) threads, one block for each W×W tile of C; no shared memory.
#include "product.cuh"

extern "C" __global__ void __launch_bounds__(W * W) multiply(
    long long m, long long n, long long k, element alpha, const element* __restrict__ a,
    long long lda, const element* __restrict__ b, long long ldb, element beta,
    element* __restrict__ c, long long ldc)
{
    const unsigned tiles_per_row = (n + W - 1) / W;
    const long long row = (long long)(blockIdx.x / tiles_per_row) * W + threadIdx.x;
    const long long column = (long long)(blockIdx.x % tiles_per_row) * W + threadIdx.y;
    if (row >= m || column >= n) return;

    const element* a_row = a + row * lda;
    const element* b_column = b + column;
    element sum = 0;
    for (long long p = 0; p < k; ++p) sum += a_row[p] * b_column[p * ldb];
    update(c + row * ldc + column, sum, alpha, beta);
}
