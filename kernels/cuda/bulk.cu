// bulk: float32 at the issue rate of the multiprocessor, with tiles from the bulk copy engine (TMA).
//
// A multiprocessor of Hopper issues 4 instructions a cycle and starts 4 fused multiply-adds, so any other
// instruction, and any wait, costs a multiply-add. Here 94 of 100 instructions of the loop are
// multiply-adds:
//   - One thread requests whole tiles (cp.async.bulk.tensor). The engine computes addresses and fills in
//     zeros outside the matrix; a tensor map describes the matrix.
//   - A thread computes 8 × 16 elements: 24 words from shared memory for 128 multiply-adds.
//   - There is no __syncthreads. Each stage has an mbarrier for full (its bytes have arrived) and one for
//     empty (every warp has read it), so warps may drift STAGES - 1 steps apart.
//   - Blocks are persistent, and the copies for the next tile run while this one is stored.
//   - A, B and C leave the L2 cache first (eviction.cuh).
//
// Registers have two banks, even and odd, with one read a cycle each, but a multiply-add has three
// operands. It takes one cycle only if one operand is kept from the multiply-add before it (".reuse") and
// the other two are in different banks. So:
//   - Rows are computed alternately left to right and right to left: within a row the element of A is
//     kept, from one row to the next that of B.
//   - b and its sum are in different banks. b is read 16 bytes at a time, into the bank of its column's
//     parity. Partial sums are stored in the order 1, 0, 3, 2; as a store of 16 bytes takes consecutive
//     registers, the assembler puts the sums into the other bank.
//   - The assembler runs at -O1, which keeps the order written here; -O3 would reorder.
//
// Shared memory (dynamic), for each stage: A as [BLOCK_M][16], its four chunks of 16 bytes permuted by
// (row / 2) mod 4 (the 64-byte swizzle of the tensor map), so that eight rows at one chunk touch all
// banks; and B as [16][BLOCK_N]. The barriers follow the stages.
//
// Launch: THREADS + 128 threads; the last warpgroup copies tiles and gives its registers to the others.
// At most one block a multiprocessor; SHARED_BYTES of dynamic shared memory. Any number of blocks: n blocks
// use n multiprocessors. For each block `partials` has memory for a tile, and `flags` a zero, which is zero
// again at the end; neither is used if shared_tiles is 0.
#include "barriers.cuh"
#include "boxes.cuh"
#include "order.cuh"
#include "product.cuh"
#include "walk.cuh"

constexpr int VECTOR = 4;

struct alignas(16) Vector {
    float of[VECTOR];
};

constexpr int LANES_M = 8;
constexpr int LANES_N = 4;
constexpr int WARP_M = LANES_M * THREAD_M;
constexpr int WARP_N = LANES_N * THREAD_N;
constexpr int WARPS_N = BLOCK_N / WARP_N;
constexpr int WARPS = BLOCK_M / WARP_M * WARPS_N;
constexpr int THREADS = 32 * WARPS;  // the computing ones
constexpr int WARPGROUP = 128;
constexpr int PRODUCER_REGISTERS = 24;
constexpr int A_BYTES = BLOCK_M * BLOCK_K * 4;
constexpr int B_BYTES = BLOCK_K * BLOCK_N * 4;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int A_ROW_BYTES = BLOCK_K * 4;
constexpr int B_ROW_BYTES = BLOCK_N * 4;
constexpr int CHUNKS = BLOCK_K / VECTOR;  // of a row of A
constexpr int PARTIAL_VECTORS = BLOCK_M * BLOCK_N / VECTOR;

static_assert(BLOCK_K == 16, "the swizzle is of four chunks");
static_assert(BLOCK_M % WARP_M == 0 && BLOCK_N % WARP_N == 0, "warps must fill the tile");
static_assert(BLOCK_M <= 256 && BLOCK_N <= 256, "a tensor map's box has at most 256 of each");
static_assert(STAGES * (STAGE_BYTES + 2 * BARRIER_BYTES) == SHARED_BYTES, "the launch must agree");

// Addresses in shared memory.
struct Shared {
    unsigned base;

    __device__ __forceinline__ unsigned a(int stage) const { return base + stage * STAGE_BYTES; }
    __device__ __forceinline__ unsigned b(int stage) const { return a(stage) + A_BYTES; }
    __device__ __forceinline__ unsigned full(int stage) const
    {
        return base + STAGES * STAGE_BYTES + stage * BARRIER_BYTES;
    }
    __device__ __forceinline__ unsigned empty(int stage) const { return full(stage) + STAGES * BARRIER_BYTES; }
};

__device__ __forceinline__ void synchronize_computing_threads()
{
    asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
}

// Run by one thread: copy the tiles of A and B for the whole walk.
__device__ __forceinline__ void load_tiles(
    Shared shared, Walk walk, int tiles_m, int tiles_n, const TensorMap* a_map, const TensorMap* b_map)
{
    PipelineState state;
    for (; walk.has_work(); walk.advance()) {
        const TileIndex tile_index = find_tile(walk.tile, tiles_m, tiles_n);
        const int row = int(tile_index.row) * BLOCK_M;
        const int column = int(tile_index.column) * BLOCK_N;
        for (int step = walk.first; step < walk.first + walk.steps; ++step) {
            const unsigned full = shared.full(state.stage);
            wait_for_phase(shared.empty(state.stage), state.parity ^ 1);
            expect_bytes(full, STAGE_BYTES);
            start_box_once(shared.a(state.stage), a_map, row, step * BLOCK_K, full);
            start_box_once(shared.b(state.stage), b_map, step * BLOCK_K, column, full);
            state.advance();
        }
    }
}

// Store this thread's partial sums of a tile that another worker owns. Neighbouring threads write
// neighbouring vectors. The order within a vector decides the banks of the sums: see above.
__device__ __forceinline__ void store_partial(float4* partials, unsigned* flags, const float (&sums)[THREAD_M][THREAD_N])
{
    float4* const to = partials + (long long)blockIdx.x * PARTIAL_VECTORS + threadIdx.x;
#pragma unroll
    for (int i = 0; i < THREAD_M; ++i) {
#pragma unroll
        for (int j = 0; j < THREAD_N; j += VECTOR) {
            __stcg(
                to + (i * THREAD_N + j) / VECTOR * THREADS,
                make_float4(sums[i][j + 1], sums[i][j], sums[i][j + 3], sums[i][j + 2]));
        }
    }
    __threadfence();
    synchronize_computing_threads();
    if (threadIdx.x == 0) asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flags + blockIdx.x) : "memory");
}

// Add the partial sums of workers of smaller numbers to those of the current tile, in their order. Their
// flags become zero again for the next launch: nobody else reads them.
__device__ __forceinline__ void add_partials(
    const float4* partials, unsigned* flags, const Walk& walk, float (&sums)[THREAD_M][THREAD_N])
{
    for (int worker = walk.find_contributor(); worker < int(blockIdx.x); ++worker) {
        if (!walk.has_stretch(worker)) continue;
        if (threadIdx.x == 0) {
            unsigned is_there;
            do {
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(is_there) : "l"(flags + worker) : "memory");
            } while (!is_there);
            flags[worker] = 0;
        }
        synchronize_computing_threads();
        const float4* const from = partials + (long long)worker * PARTIAL_VECTORS + threadIdx.x;
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i) {
#pragma unroll
            for (int j = 0; j < THREAD_N; j += VECTOR) {
                const float4 partial = __ldcg(from + (i * THREAD_N + j) / VECTOR * THREADS);
                sums[i][j + 1] += partial.x;
                sums[i][j] += partial.y;
                sums[i][j + 3] += partial.z;
                sums[i][j + 2] += partial.w;
            }
        }
    }
}

// C ← α·sums + βC for this thread's elements. `c` points to the tile; `rows` × `columns` of it are inside
// C.
__device__ __forceinline__ void store_tile(
    const float (&sums)[THREAD_M][THREAD_N], int thread_row, int thread_column, int rows, int columns,
    float alpha, float beta, float* __restrict__ c, long long ldc)
{
    const bool aligned = ldc % VECTOR == 0 && reinterpret_cast<unsigned long long>(c) % sizeof(Vector) == 0;
#pragma unroll
    for (int i = 0; i < THREAD_M; ++i) {
        const int row = thread_row + i * LANES_M;
        if (row >= rows) continue;
        float* const c_row = c + row * ldc;
#pragma unroll
        for (int j = 0; j < THREAD_N; j += VECTOR) {
            const int column = thread_column + j * LANES_N;
            if (aligned && column + VECTOR <= columns) {
                Vector* const to = reinterpret_cast<Vector*>(c_row + column);
                Vector result = {};
                if (beta != 0.0f) result = read_once(to);
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

extern "C" __global__ void __launch_bounds__(THREADS + WARPGROUP, 1) multiply(
    long long m, long long n, int steps_k, float alpha, const __grid_constant__ TensorMap a_map,
    const __grid_constant__ TensorMap b_map, float beta, float* __restrict__ c, long long ldc,
    int shared_tiles, float4* __restrict__ partials, unsigned* flags)
{
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    const Shared shared = {static_cast<unsigned>(__cvta_generic_to_shared(shared_bytes))};
    const int thread = threadIdx.x;
    if (thread == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            start_barrier(shared.full(stage), 1);
            start_barrier(shared.empty(stage), WARPS);
        }
        publish_barriers();
    }
    __syncthreads();
    const int tiles_m = int((m + BLOCK_M - 1) / BLOCK_M);
    const int tiles_n = int((n + BLOCK_N - 1) / BLOCK_N);
    Walk walk(tiles_m * tiles_n, shared_tiles, steps_k);

    if (thread >= THREADS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGISTERS));
        if (thread == THREADS) load_tiles(shared, walk, tiles_m, tiles_n, &a_map, &b_map);
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
    if (!walk.has_work()) return;

    const int lane = thread % 32;
    const int warp = thread / 32;
    const int lane_m = (lane & 1) | (lane >> 3 << 1);
    const int lane_n = lane >> 1 & 3;
    const int thread_row = warp / WARPS_N * WARP_M + lane_m;
    const int thread_column = warp % WARPS_N * WARP_N + lane_n * VECTOR;
    unsigned a_from[CHUNKS];
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
        a_from[chunk] = thread_row * A_ROW_BYTES + (chunk ^ (lane_m >> 1)) * sizeof(Vector);
    }
    const unsigned b_from = A_BYTES + thread_column * 4;

    Vector a_fragment[THREAD_M];              // VECTOR steps of k of each row
    Vector b_fragment[2][THREAD_N / VECTOR];  // one step of k of each column
    auto read_a = [&](int i, unsigned stage_bytes, int chunk) {
        a_fragment[i] = *reinterpret_cast<const Vector*>(
            shared_bytes + stage_bytes + a_from[chunk] + i * LANES_M * A_ROW_BYTES);
    };
    auto read_b = [&](unsigned stage_bytes, int p) {
#pragma unroll
        for (int j = 0; j < THREAD_N / VECTOR; ++j) {
            b_fragment[p % 2][j] = *reinterpret_cast<const Vector*>(
                shared_bytes + stage_bytes + b_from + p * B_ROW_BYTES + j * LANES_N * sizeof(Vector));
        }
    };

    PipelineState state;
    wait_for_phase(shared.full(0), 0);
#pragma unroll
    for (int i = 0; i < THREAD_M; ++i) read_a(i, 0, 0);
    read_b(0, 0);

    for (bool is_last = false; !is_last;) {
        const Walk now = walk;
        walk.advance();
        is_last = !walk.has_work();
        float sums[THREAD_M][THREAD_N] = {};
#pragma unroll 1
        for (int steps_left = now.steps; steps_left > 0; --steps_left) {
            unsigned stage_bytes = state.stage * STAGE_BYTES;
#pragma unroll
            for (int p = 0; p < BLOCK_K; ++p) {
                const int next = (p + 1) % BLOCK_K;
                if (next == 0) {
                    // All of this stage is in registers. The next stage may belong to another tile.
                    __syncwarp();
                    if (lane == 0) arrive(shared.empty(state.stage));
                    state.advance();
                    if (steps_left > 1 || !is_last) wait_for_phase(shared.full(state.stage), state.parity);
                    stage_bytes = state.stage * STAGE_BYTES;
                }
                read_b(stage_bytes, next);
#pragma unroll
                for (int i = 0; i < THREAD_M; ++i) {
#pragma unroll
                    for (int position = 0; position < THREAD_N; ++position) {
                        const int j = i % 2 == 0 ? position : THREAD_N - 1 - position;
                        sums[i][j] += a_fragment[i].of[p % VECTOR] * b_fragment[p % 2][j / VECTOR].of[j % VECTOR];
                    }
                    // This row's elements are used up: read the next into the same registers.
                    if (p % VECTOR == VECTOR - 1) read_a(i, stage_bytes, next / VECTOR);
                }
            }
        }
        if (now.contributes) {
            store_partial(partials, flags, sums);
        } else {
            if (now.first > 0) add_partials(partials, flags, now, sums);
            const TileIndex tile_index = find_tile(now.tile, tiles_m, tiles_n);
            const long long row = tile_index.row * BLOCK_M;
            const long long column = tile_index.column * BLOCK_N;
            store_tile(
                sums, thread_row, thread_column, clamp_to_int(m - row, BLOCK_M), clamp_to_int(n - column, BLOCK_N),
                alpha, beta, c + row * ldc + column, ldc);
        }
    }
}
