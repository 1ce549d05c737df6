// register: each thread computes THREAD_M × THREAD_N elements of C, held in registers.
//
// A block computes a BLOCK_M × BLOCK_N tile of C along K in steps of BLOCK_K. Data is reused on three
// levels. A block reads each element of its strips of A and B from global memory once. A warp reads an
// element of the shared tiles once for all threads that need it. A thread uses each element in registers
// THREAD_M or THREAD_N times: for 8×8 elements it reads 16 words from shared memory for 64 fused
// multiply-adds.
//
// Loads are asynchronous (cp.async), from global to shared memory without registers. Of STAGES tiles in
// shared memory one is computed while the others arrive. Within a step, the fragments of the
// next k are read from shared memory before those of this k are used.
//
// Shared memory (dynamic), for each stage: A as [BLOCK_M][BLOCK_K + VECTOR] and B as
// [BLOCK_K][BLOCK_N], where VECTOR is the number of elements in 16 bytes. A stays row-major: a thread
// reads VECTOR steps of k of one row at once. The padding puts the beginnings of neighbouring rows into
// different banks.
//
// The rows of a thread are computed alternately left to right and right to left, so that each
// multiply-add shares one operand with the one before it. Registers have two banks with one read a cycle
// each, which do not deliver three new operands. The assembler is told to keep this order (bulk.cu goes
// further).
//
// The lanes of a warp form an 8×4 grid. Bit 0 of the lane is a row and bit 1 a column, so that a warp
// reads 16 bytes a lane in two passes, however the hardware pairs lanes that read the same address. On
// Hopper the plain order is as fast.
//
// Launch: THREADS threads, one block for each tile; SHARED_BYTES of dynamic shared memory. `multiply`
// needs A, B, C and their leading dimensions aligned to 16 bytes, and moves 16 bytes at a time;
// `multiply_unaligned` moves one element at a time. Both return at once if `wanted` points to a 0: so
// another kernel decides on the device whether this one computes. A null pointer means yes.
//
// With WIDE_SUMS, products of float are summed in double, so that an element of C is rounded once. With
// PERSISTENT, each block computes every gridDim.x-th tile, so that any number of blocks will do.
#include "copies.cuh"
#include "order.cuh"
#include "product.cuh"

#if WIDE_SUMS
typedef double sum;
#else
typedef element sum;
#endif

constexpr int LANES_M = 8;
constexpr int LANES_N = 4;
constexpr int WARP_M = LANES_M * THREAD_M;
constexpr int WARP_N = LANES_N * THREAD_N;
constexpr int WARPS_N = BLOCK_N / WARP_N;
constexpr int THREADS = 32 * (BLOCK_M / WARP_M) * WARPS_N;
constexpr int A_STRIDE = BLOCK_K + VECTOR;
constexpr int A_ELEMENTS = BLOCK_M * A_STRIDE;
constexpr int STAGE_ELEMENTS = A_ELEMENTS + BLOCK_K * BLOCK_N;
constexpr int A_CHUNKS = BLOCK_M * BLOCK_K / VECTOR / THREADS;
constexpr int B_CHUNKS = BLOCK_K * BLOCK_N / VECTOR / THREADS;

static_assert(BLOCK_M % WARP_M == 0 && BLOCK_N % WARP_N == 0, "warps must fill the tile");
static_assert(A_CHUNKS * THREADS * VECTOR == BLOCK_M * BLOCK_K, "threads must share A evenly");
static_assert(B_CHUNKS * THREADS * VECTOR == BLOCK_K * BLOCK_N, "threads must share B evenly");
static_assert(BLOCK_K % (2 * VECTOR) == 0, "fragments of A alternate between two registers");
static_assert(STAGES * STAGE_ELEMENTS * sizeof(element) == SHARED_BYTES, "the launch must agree");

template <bool ALIGNED>
__device__ __forceinline__ void multiply_tile(
    long long tile, long long m, long long n, long long k, element alpha, const element* __restrict__ a,
    long long lda, const element* __restrict__ b, long long ldb, element beta,
    element* __restrict__ c, long long ldc)
{
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    element* const shared = reinterpret_cast<element*>(shared_bytes);

    const TileIndex tile_index = find_tile(tile, (m + BLOCK_M - 1) / BLOCK_M, (n + BLOCK_N - 1) / BLOCK_N);
    const long long first_row = tile_index.row * BLOCK_M;
    const long long first_column = tile_index.column * BLOCK_N;
    const int rows = clamp_to_int(m - first_row, BLOCK_M);
    const int columns = clamp_to_int(n - first_column, BLOCK_N);

    // Each thread copies A_CHUNKS chunks of A, A_ROW_STEP rows apart, and B_CHUNKS chunks of B.
    constexpr int A_ROW_CHUNKS = BLOCK_K / VECTOR;
    constexpr int B_ROW_CHUNKS = BLOCK_N / VECTOR;
    constexpr int A_ROW_STEP = THREADS / A_ROW_CHUNKS;
    constexpr int B_ROW_STEP = THREADS / B_ROW_CHUNKS;
    static_assert(THREADS % A_ROW_CHUNKS == 0 && THREADS % B_ROW_CHUNKS == 0, "whole rows at a time");
    const int thread = threadIdx.x;
    const int a_row = thread / A_ROW_CHUNKS;
    const int a_column = thread % A_ROW_CHUNKS * VECTOR;
    const int b_row = thread / B_ROW_CHUNKS;
    const int b_column = thread % B_ROW_CHUNKS * VECTOR;
    const element* a_from = a + (first_row + a_row) * lda + a_column;
    const element* b_from = b + b_row * ldb + first_column + b_column;
    element* const a_to = shared + a_row * A_STRIDE + a_column;
    element* const b_to = shared + A_ELEMENTS + b_row * BLOCK_N + b_column;
    const int b_valid = max(0, min(columns - b_column, VECTOR));
    long long k_to_load = k;

    // Outside A and B, zeros are stored.
    auto start_stage = [&](int stage) {
        const int depth = clamp_to_int(k_to_load, BLOCK_K);  // not positive once K is used up
        const int a_valid = max(0, min(depth - a_column, VECTOR));
#pragma unroll
        for (int i = 0; i < A_CHUNKS; ++i) {
            start_chunk<ALIGNED>(
                a_to + stage * STAGE_ELEMENTS + i * A_ROW_STEP * A_STRIDE,
                a_from + i * A_ROW_STEP * lda, a_row + i * A_ROW_STEP < rows ? a_valid : 0);
        }
#pragma unroll
        for (int i = 0; i < B_CHUNKS; ++i) {
            start_chunk<ALIGNED>(
                b_to + stage * STAGE_ELEMENTS + i * B_ROW_STEP * BLOCK_N,
                b_from + i * B_ROW_STEP * ldb, b_row + i * B_ROW_STEP < depth ? b_valid : 0);
        }
        close_copies();
        a_from += BLOCK_K;
        b_from += BLOCK_K * ldb;
        k_to_load -= BLOCK_K;
    };

    const int lane = thread % 32;
    const int warp = thread / 32;
    const int lane_m = (lane & 1) | (lane >> 3 << 1);
    const int lane_n = lane >> 1 & 3;
    const int thread_row = warp / WARPS_N * WARP_M + lane_m;
    const int thread_column = warp % WARPS_N * WARP_N + lane_n * VECTOR;
    const element* const a_fragments = shared + thread_row * A_STRIDE;
    const element* const b_fragments = shared + A_ELEMENTS + thread_column;

    sum sums[THREAD_M][THREAD_N] = {};
    Vector a_fragment[2][THREAD_M];           // VECTOR steps of k of each row
    Vector b_fragment[2][THREAD_N / VECTOR];  // one step of k of each column

    auto read_a = [&](Vector (&to)[THREAD_M], int stage, int p) {
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i) {
            to[i] = *reinterpret_cast<const Vector*>(
                a_fragments + stage * STAGE_ELEMENTS + i * LANES_M * A_STRIDE + p);
        }
    };
    auto read_b = [&](Vector (&to)[THREAD_N / VECTOR], int stage, int p) {
#pragma unroll
        for (int j = 0; j < THREAD_N / VECTOR; ++j) {
            to[j] = *reinterpret_cast<const Vector*>(
                b_fragments + stage * STAGE_ELEMENTS + p * BLOCK_N + j * LANES_N * VECTOR);
        }
    };

    for (int stage = 0; stage < STAGES - 1; ++stage) start_stage(stage);
    wait_for_copies<STAGES - 2>();
    __syncthreads();
    read_a(a_fragment[0], 0, 0);
    read_b(b_fragment[0], 0, 0);

    int stage = 0;
    for (long long done = 0; done < k; done += BLOCK_K) {
        // The previous stage is free: all threads passed the barrier below after its last read.
        start_stage(stage == 0 ? STAGES - 1 : stage - 1);
#pragma unroll
        for (int p = 0; p < BLOCK_K; ++p) {
            const int next = (p + 1) % BLOCK_K;
            if (next == 0) {
                wait_for_copies<STAGES - 2>();
                __syncthreads();
                stage = stage == STAGES - 1 ? 0 : stage + 1;
            }
            if (next % VECTOR == 0) read_a(a_fragment[next / VECTOR % 2], stage, next);
            read_b(b_fragment[next % 2], stage, next);
#pragma unroll
            for (int i = 0; i < THREAD_M; ++i) {
#pragma unroll
                for (int position = 0; position < THREAD_N; ++position) {
                    const int j = i % 2 == 0 ? position : THREAD_N - 1 - position;
                    sums[i][j] += sum(a_fragment[p / VECTOR % 2][i].of[p % VECTOR])
                                * sum(b_fragment[p % 2][j / VECTOR].of[j % VECTOR]);
                }
            }
        }
    }

#pragma unroll
    for (int i = 0; i < THREAD_M; ++i) {
        const int row = thread_row + i * LANES_M;
        if (row >= rows) break;
        element* const c_row = c + (first_row + row) * ldc + first_column;
#pragma unroll
        for (int j = 0; j < THREAD_N; j += VECTOR) {
            const int column = thread_column + j * LANES_N;
            if (ALIGNED && column + VECTOR <= columns) {
                Vector* const to = reinterpret_cast<Vector*>(c_row + column);
                Vector result = {};
                if (beta != element(0)) result = read_once(to);
#pragma unroll
                for (int v = 0; v < VECTOR; ++v) update(&result.of[v], sums[i][j + v], alpha, beta);
                write_once(to, result);
            } else {
#pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    if (column + v < columns) update(c_row + column + v, sums[i][j + v], alpha, beta);
                }
            }
        }
    }
}

template <bool ALIGNED>
__device__ __forceinline__ void multiply_tiles(
    long long m, long long n, long long k, element alpha, const element* __restrict__ a,
    long long lda, const element* __restrict__ b, long long ldb, element beta,
    element* __restrict__ c, long long ldc)
{
#if PERSISTENT
    const long long tiles = ((m + BLOCK_M - 1) / BLOCK_M) * ((n + BLOCK_N - 1) / BLOCK_N);
    for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        multiply_tile<ALIGNED>(tile, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        // The stages are free once all copies have arrived, even those of zeros, and all were read.
        wait_for_copies<0>();
        __syncthreads();
    }
#else
    multiply_tile<ALIGNED>(blockIdx.x, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) multiply(
    long long m, long long n, long long k, element alpha, const element* __restrict__ a,
    long long lda, const element* __restrict__ b, long long ldb, element beta,
    element* __restrict__ c, long long ldc, const unsigned* wanted)
{
    if (wanted != nullptr && *wanted == 0) return;
    multiply_tiles<true>(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) multiply_unaligned(
    long long m, long long n, long long k, element alpha, const element* __restrict__ a,
    long long lda, const element* __restrict__ b, long long ldb, element beta,
    element* __restrict__ c, long long ldc, const unsigned* wanted)
{
    if (wanted != nullptr && *wanted == 0) return;
    multiply_tiles<false>(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
