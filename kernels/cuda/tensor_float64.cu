// tensor (float64): the double-precision tensor cores of Hopper and later, through mma.sync.
//
// As in *register*, a block goes along K in steps of BLOCK_K with STAGES tiles of A and B in shared
// memory, loaded by asynchronous copies. Here a warp computes WARP_M × WARP_N elements by m16n8k8 or
// m16n8k16 products (STEP steps of k), each 1024 or 2048 fused multiply-adds in float64. Products and
// sums are rounded as in IEEE, but not summed in the order of k.
//
// Shared memory (dynamic), for each stage: A as [BLOCK_M][BLOCK_K + 4] and B as
// [BLOCK_K][BLOCK_N + 4]. Lane 4g + q holds the rows g and g + 8 of A and the column g of B, every
// fourth step of k from q on. Sixteen lanes read 8 bytes each at a time: from four rows of A, or of B,
// that are 8 banks apart. (Reads of 16 bytes would be fewer, but deliver elements that do not belong
// into neighbouring registers of an operand, so each would be moved once more.)
//
// The fragments of a row of products are read for the next STEP steps of k as soon as the products that
// use them have been issued; those of B alternate between two sets of registers.
//
// A multiprocessor holds several blocks: while one stores its tile or waits for its first stages, the
// others multiply. With PERSISTENT, as many teams of warps share one block that fills the
// multiprocessor, each with a tile, shared memory and a named barrier of its own. So n blocks limit a
// launch to n multiprocessors. (On the whole GPU, plain blocks are a little faster.)
//
// Launch: TEAMS · THREADS threads; one block for each tile unless PERSISTENT. SHARED_BYTES of dynamic
// shared memory. Entries as in *register*, without `wanted`.
#include "copies.cuh"
#include "order.cuh"
#include "product.cuh"

constexpr int STEPS = BLOCK_K / STEP;
constexpr int WARPS_N = BLOCK_N / WARP_N;
constexpr int TEAMS = PERSISTENT ? BLOCKS_PER_SM : 1;
constexpr int THREADS = 32 * (BLOCK_M / WARP_M) * WARPS_N;  // of a team
constexpr int ROWS = WARP_M / 16;   // of products in a warp
constexpr int COLUMNS = WARP_N / 8;
constexpr int PADDING = 4;
constexpr int A_STRIDE = BLOCK_K + PADDING;
constexpr int B_STRIDE = BLOCK_N + PADDING;
constexpr int A_ELEMENTS = BLOCK_M * A_STRIDE;
constexpr int STAGE_ELEMENTS = A_ELEMENTS + BLOCK_K * B_STRIDE;
constexpr int A_ROW_CHUNKS = BLOCK_K / VECTOR;
constexpr int B_ROW_CHUNKS = BLOCK_N / VECTOR;
constexpr int A_CHUNKS = BLOCK_M * A_ROW_CHUNKS / THREADS;
constexpr int B_CHUNKS = BLOCK_K * B_ROW_CHUNKS / THREADS;
constexpr int A_ROW_STEP = THREADS / A_ROW_CHUNKS;
constexpr int B_ROW_STEP = THREADS / B_ROW_CHUNKS;

static_assert(BLOCK_M % WARP_M == 0 && BLOCK_N % WARP_N == 0, "warps must fill the tile");
static_assert(STEPS % 2 == 0, "fragments of B alternate between two sets of registers");
static_assert(WARP_M % 16 == 0 && WARP_N % 8 == 0, "products must fill the warp's share");
static_assert(BLOCK_K % 16 == 0 && BLOCK_N % 16 == 0, "rows of A and B must lie 8 banks apart");
static_assert(THREADS % A_ROW_CHUNKS == 0 && THREADS % B_ROW_CHUNKS == 0, "whole rows at a time");
static_assert(A_CHUNKS * THREADS == BLOCK_M * A_ROW_CHUNKS, "threads must share A evenly");
static_assert(B_CHUNKS * THREADS == BLOCK_K * B_ROW_CHUNKS, "threads must share B evenly");
static_assert(TEAMS * STAGES * STAGE_ELEMENTS * sizeof(element) == SHARED_BYTES, "the launch must agree");

constexpr int A_HELD = STEP / 2;  // elements of A in a lane for a product
constexpr int B_HELD = STEP / 4;

// c ← a·b + c for 16 × 8 elements and STEP steps of k.
__device__ __forceinline__ void multiply_add(double (&c)[4], const double (&a)[A_HELD], const double (&b)[B_HELD])
{
#if STEP == 8
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#elif STEP == 16
    asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]),
          "d"(b[1]), "d"(b[2]), "d"(b[3]));
#endif
}

// Synchronize the threads of the team. Barrier 0 belongs to the whole block.
__device__ __forceinline__ void meet(int team)
{
    if constexpr (TEAMS == 1) {
        __syncthreads();
    } else {
        asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(THREADS) : "memory");
    }
}

// Where a tile lies in C, and its rows and columns inside C.
struct Part {
    long long row;
    long long column;
    int rows;
    int columns;

    __device__ __forceinline__ Part(unsigned tile, long long m, long long n)
    {
        const TileIndex tile_index = find_tile(tile, (m + BLOCK_M - 1) / BLOCK_M, (n + BLOCK_N - 1) / BLOCK_N);
        row = tile_index.row * BLOCK_M;
        column = tile_index.column * BLOCK_N;
        rows = clamp_to_int(m - row, BLOCK_M);
        columns = clamp_to_int(n - column, BLOCK_N);
    }
};

template <bool ALIGNED, typename Number>
__device__ __forceinline__ void multiply_tile(
    const Number& tile, int team, long long m, long long n, long long k, element alpha,
    const element* __restrict__ a, long long lda, const element* __restrict__ b, long long ldb,
    element beta, element* __restrict__ c, long long ldc)
{
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    element* const shared = reinterpret_cast<element*>(shared_bytes) + team * STAGES * STAGE_ELEMENTS;
    const Part part(tile, m, n);

    // Each thread copies A_CHUNKS chunks of A, A_ROW_STEP rows apart, and B_CHUNKS chunks of B.
    const int thread = threadIdx.x % THREADS;
    const int a_row = thread / A_ROW_CHUNKS;
    const int a_column = thread % A_ROW_CHUNKS * VECTOR;
    const int b_row = thread / B_ROW_CHUNKS;
    const int b_column = thread % B_ROW_CHUNKS * VECTOR;
    const element* a_from = a + (part.row + a_row) * lda + a_column;
    const element* b_from = b + b_row * ldb + part.column + b_column;
    element* const a_to = shared + a_row * A_STRIDE + a_column;
    element* const b_to = shared + A_ELEMENTS + b_row * B_STRIDE + b_column;
    const int a_rows = part.rows - a_row;
    const int b_valid = max(0, min(part.columns - b_column, VECTOR));

    // Outside A and B, and once no steps are left, zeros are stored.
    auto start_stage = [&](int stage, int steps_left) {
        const int depth = steps_left > 1 ? BLOCK_K : steps_left == 1 ? int((k - 1) % BLOCK_K) + 1 : 0;
        const int a_valid = max(0, min(depth - a_column, VECTOR));
#pragma unroll
        for (int i = 0; i < A_CHUNKS; ++i) {
            start_chunk<ALIGNED>(
                a_to + stage * STAGE_ELEMENTS + i * A_ROW_STEP * A_STRIDE,
                a_from + i * A_ROW_STEP * lda, i * A_ROW_STEP < a_rows ? a_valid : 0);
        }
#pragma unroll
        for (int i = 0; i < B_CHUNKS; ++i) {
            start_chunk<ALIGNED>(
                b_to + stage * STAGE_ELEMENTS + i * B_ROW_STEP * B_STRIDE,
                b_from + i * B_ROW_STEP * ldb, b_row + i * B_ROW_STEP < depth ? b_valid : 0);
        }
        close_copies();
        a_from += BLOCK_K;
        b_from += BLOCK_K * ldb;
    };

    const int lane = thread % 32;
    const int warp = thread / 32;
    const int g = lane / 4;
    const int q = lane % 4;
    const int warp_row = warp / WARPS_N * WARP_M;
    const int warp_column = warp % WARPS_N * WARP_N;
    const element* const a_fragments = shared + (warp_row + g) * A_STRIDE + q;
    const element* const b_fragments = shared + A_ELEMENTS + q * B_STRIDE + warp_column + g;

    double sums[ROWS][COLUMNS][4] = {};
    double a_fragment[ROWS][A_HELD];
    double b_fragment[2][COLUMNS][B_HELD];

    auto read_a = [&](double (&to)[A_HELD], int row, int stage, int p) {
#pragma unroll
        for (int i = 0; i < A_HELD; ++i) {
            to[i] = a_fragments[stage * STAGE_ELEMENTS + (row * 16 + i % 2 * 8) * A_STRIDE + p * STEP + i / 2 * 4];
        }
    };
    auto read_b = [&](double (&to)[COLUMNS][B_HELD], int stage, int p) {
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
#pragma unroll
            for (int i = 0; i < B_HELD; ++i) {
                to[j][i] = b_fragments[stage * STAGE_ELEMENTS + (p * STEP + i * 4) * B_STRIDE + j * 8];
            }
        }
    };

    int steps_left = int((k + BLOCK_K - 1) / BLOCK_K);
    for (int stage = 0; stage < STAGES - 1; ++stage) start_stage(stage, steps_left - stage);
    wait_for_copies<STAGES - 2>();
    meet(team);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) read_a(a_fragment[r], r, 0, 0);
    read_b(b_fragment[0], 0, 0);

    int stage = 0;
    for (; steps_left > 0; --steps_left) {
        // The previous stage is free: all threads passed the barrier below after its last read.
        start_stage(stage == 0 ? STAGES - 1 : stage - 1, steps_left - (STAGES - 1));
#pragma unroll
        for (int p = 0; p < STEPS; ++p) {
            const int next = (p + 1) % STEPS;
            if (next == 0) {
                wait_for_copies<STAGES - 2>();
                meet(team);
                stage = stage == STAGES - 1 ? 0 : stage + 1;
            }
            read_b(b_fragment[(p + 1) % 2], stage, next);
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
#pragma unroll
                for (int j = 0; j < COLUMNS; ++j) multiply_add(sums[r][j], a_fragment[r], b_fragment[p % 2][j]);
                read_a(a_fragment[r], r, stage, next);
            }
        }
    }

    if constexpr (PERSISTENT) {
        // The stages are free once all copies have arrived, even those of zeros, and all were read.
        wait_for_copies<0>();
        meet(team);
    }
    const Part to(tile, m, n);  // computed again, because keeping `part` would take registers

    // A lane holds two adjacent elements in every 8 columns, in the rows g and g + 8.
#pragma unroll
    for (int r = 0; r < 2 * ROWS; ++r) {
        const int row = warp_row + r * 8 + g;
        if (row >= to.rows) break;
        element* const c_row = c + (to.row + row) * ldc + to.column;
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
            const int column = warp_column + j * 8 + q * VECTOR;
            const double* const sum = sums[r / 2][j] + r % 2 * VECTOR;
            if (ALIGNED && column + VECTOR <= to.columns) {
                Vector* const pair = reinterpret_cast<Vector*>(c_row + column);
                Vector result = {};
                if (beta != element(0)) result = read_once(pair);
#pragma unroll
                for (int v = 0; v < VECTOR; ++v) update(&result.of[v], sum[v], alpha, beta);
                write_once(pair, result);
            } else {
#pragma unroll
                for (int v = 0; v < VECTOR; ++v) {
                    if (column + v < to.columns) update(c_row + column + v, sum[v], alpha, beta);
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
    const unsigned tiles = ((m + BLOCK_M - 1) / BLOCK_M) * ((n + BLOCK_N - 1) / BLOCK_N);
    const int team = threadIdx.x / THREADS;
    // The first tiles go to different multiprocessors. The tile's number is volatile, so in local memory:
    // the loop in multiply_tile needs every register.
    volatile unsigned tile = team * gridDim.x + blockIdx.x;
    for (; tile < tiles; tile = tile + TEAMS * gridDim.x) {
        multiply_tile<ALIGNED>(tile, team, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    }
#else
    const unsigned tile = blockIdx.x;
    multiply_tile<ALIGNED>(tile, 0, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
#endif
}

extern "C" __global__ void __launch_bounds__(TEAMS* THREADS, BLOCKS_PER_SM / TEAMS) multiply(
    long long m, long long n, long long k, element alpha, const element* __restrict__ a,
    long long lda, const element* __restrict__ b, long long ldb, element beta,
    element* __restrict__ c, long long ldc)
{
    multiply_tiles<true>(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

extern "C" __global__ void __launch_bounds__(TEAMS* THREADS, BLOCKS_PER_SM / TEAMS) multiply_unaligned(
    long long m, long long n, long long k, element alpha, const element* __restrict__ a,
    long long lda, const element* __restrict__ b, long long ldb, element beta,
    element* __restrict__ c, long long ldc)
{
    multiply_tiles<false>(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
