// tensor (float16, bfloat16): tiles of C by wgmma on Hopper's tensor cores, summed in float32.
//
// A multiprocessor of Hopper multiplies 64 × 256 × 16 elements in 128 cycles. To keep that up:
//   - wgmma reads A and B from shared memory, as the bulk copy engine lays them out there: lines of 128
//     bytes, whose eight chunks of 16 bytes are permuted by the line's number (128-byte swizzle). A line of
//     A is 64 steps of k of a row. A line of B is 64 columns of one step of k: for elements of 16 bits,
//     wgmma takes B along its columns, too, so that nothing is transposed.
//   - One thread of the last warpgroup requests boxes of A and B, STAGES steps ahead and across tiles. Each
//     stage has an mbarrier for full (its bytes have arrived) and one for empty (all have read it). The
//     other warpgroups compute 64 × BLOCK_N elements each.
//   - L2 cannot feed all multiprocessors with tiles of this size. So CLUSTER blocks compute neighbouring
//     tiles of one column of tiles, and each copies its part of B into the shared memory of all of them. A
//     stage is empty when the warpgroups of all have read it. Where neighbours in the order are not in one
//     column, each copies all of its B.
//   - C is stored while the next tile is computed. At its end, sums are rounded and packed into half as
//     many registers; the next tile's products run while a warp transposes these in shared memory and
//     stores full lines, 64 columns after each of the first steps.
//
// Blocks are persistent: block b computes the tiles b, b + gridDim.x, … If the number of tiles is not a
// multiple of CLUSTER, the last blocks compute a tile outside C, of zeros, and store nothing.
//
// Tensor cores add with truncation, as they do for any library. K may be 0: C ← βC.
//
// Compiled with ELEMENT defined as f16 or bf16, which is PTX's name of the element type.
//
// Launch: a multiple of CLUSTER blocks, at most one a multiprocessor; BLOCK_M / 64 + 1 warpgroups;
// SHARED_BYTES of dynamic shared memory. Rows of A and B begin at multiples of 16 bytes; those of C need not.
// Boxes of A are 64 columns × BLOCK_M rows, those of B 64 columns × 64 rows, all with the 128-byte swizzle.
#include "barriers.cuh"
#include "boxes.cuh"
#include "cluster.cuh"
#include "half.cuh"
#include "order.cuh"

constexpr int CONSUMERS = BLOCK_M / 64;  // warpgroups that compute
constexpr int WARPGROUP = 128;
constexpr int THREADS = (CONSUMERS + 1) * WARPGROUP;
constexpr int LINE = 64;  // elements
constexpr int LINE_BYTES = 2 * LINE;
constexpr int A_BYTES = BLOCK_M * LINE_BYTES;
constexpr int BOXES = BLOCK_N / LINE;  // of B in a stage
constexpr int BOX_BYTES = BLOCK_K * LINE_BYTES;
constexpr int STAGE_BYTES = A_BYTES + BOXES * BOX_BYTES;
constexpr int SUMS = BLOCK_N / 2;  // elements of C in a thread
constexpr int LINE_PAIRS = LINE / 4;  // packed registers of 64 columns
constexpr int WARP_BYTES = 16 * LINE_BYTES;  // to transpose 16 rows of 64 columns
constexpr int EPILOGUE_BYTES = 4 * CONSUMERS * WARP_BYTES;
constexpr int PRODUCER_REGISTERS = 40;
constexpr int CONSUMER_REGISTERS = 232;

static_assert(BLOCK_K == LINE, "a line of A is a step of the tile");
static_assert(CONSUMERS == 2, "registers are divided among two computing warpgroups and one that copies");
static_assert(BOXES % CLUSTER == 0, "the blocks of a cluster share out the boxes of B");
static_assert(STAGES * (STAGE_BYTES + 2 * BARRIER_BYTES) + EPILOGUE_BYTES == SHARED_BYTES, "the launch must agree");

// Addresses in shared memory.
struct Shared {
    unsigned base;

    __device__ __forceinline__ unsigned a(int stage) const { return base + stage * STAGE_BYTES; }
    __device__ __forceinline__ unsigned b(int stage, int box) const { return a(stage) + A_BYTES + box * BOX_BYTES; }
    __device__ __forceinline__ unsigned epilogue(int warp) const
    {
        return base + STAGES * STAGE_BYTES + warp * WARP_BYTES;
    }
    __device__ __forceinline__ unsigned full(int stage) const
    {
        return base + STAGES * STAGE_BYTES + EPILOGUE_BYTES + stage * BARRIER_BYTES;
    }
    __device__ __forceinline__ unsigned empty(int stage) const { return full(stage) + STAGES * BARRIER_BYTES; }
};

// The tiles of one block.
struct Tiles {
    int m;      // rows of tiles
    int n;      // columns of tiles
    int first;  // the current tile of the cluster's first block
    int rank;   // of the block in its cluster

    __device__ __forceinline__ Tiles(long long rows, long long columns)
        : m(int((rows + BLOCK_M - 1) / BLOCK_M)), n(int((columns + BLOCK_N - 1) / BLOCK_N)),
          first(blockIdx.x / CLUSTER * CLUSTER), rank(blockIdx.x % CLUSTER)
    {
    }

    __device__ __forceinline__ bool has_work() const { return first < m * n; }
    __device__ __forceinline__ void advance() { first += gridDim.x; }
    __device__ __forceinline__ TileIndex find(int of) const { return find_tile(first + of, m, n); }

    // This block's tile; past the last one a position below C.
    __device__ __forceinline__ TileIndex find_own() const
    {
        const int last = m * n - 1 - first;
        if (rank <= last) return find(rank);
        TileIndex tile_index = find(last);
        tile_index.row = m;
        return tile_index;
    }

    // Whether the tiles of all blocks of the cluster are in one column.
    __device__ __forceinline__ bool share_column() const
    {
        const int last = min(CLUSTER - 1, m * n - 1 - first);
        return find(0).column == find(last).column;
    }
};

// Run by one thread: copy the tiles of A and B for the tiles of C.
__device__ __forceinline__ void load_tiles(
    Shared shared, Tiles tiles, int steps, const TensorMap* a_map, const TensorMap* b_map)
{
    constexpr int PART = BOXES / CLUSTER;
    constexpr unsigned short ALL = (1 << CLUSTER) - 1;
    PipelineState state;
    for (; tiles.has_work(); tiles.advance()) {
        const TileIndex tile_index = tiles.find_own();
        const int row = int(tile_index.row) * BLOCK_M;
        const int column = int(tile_index.column) * BLOCK_N;
        const bool shares = CLUSTER > 1 && tiles.share_column();
        for (int step = 0; step < steps; ++step) {
            const unsigned full = shared.full(state.stage);
            const int k = step * BLOCK_K;
            wait_for_phase(shared.empty(state.stage), state.parity ^ 1);
            expect_bytes(full, STAGE_BYTES);
            start_box(shared.a(state.stage), a_map, row, k, full);
            if (shares) {
#pragma unroll
                for (int i = 0; i < PART; ++i) {
                    const int box = tiles.rank * PART + i;
                    start_shared_box(shared.b(state.stage, box), b_map, k, column + box * LINE, full, ALL);
                }
            } else {
#pragma unroll
                for (int box = 0; box < BOXES; ++box) {
                    start_box(shared.b(state.stage, box), b_map, k, column + box * LINE, full);
                }
            }
            state.advance();
        }
    }
}

// A computing warpgroup on its way through the stages.
struct Consumer {
    Shared shared;
    PipelineState state;
    int before = -1;  // the stage whose products may still be in flight
    int warpgroup;
    int thread;  // in the warpgroup

    // Tell all blocks of the cluster that this warpgroup has read a stage.
    __device__ __forceinline__ void release(int stage) const
    {
        if (thread < CLUSTER) arrive_at(shared.empty(stage), thread);
    }

    // Start the products of a stage, and release the one before.
    __device__ __forceinline__ void multiply_step(float (&sums)[SUMS], bool accumulate)
    {
        wait_for_phase(shared.full(state.stage), state.parity);
        const unsigned own = shared.a(state.stage) + warpgroup * 64 * LINE_BYTES;
        const Descriptor a = describe(own, SWIZZLE_128, 8 * LINE_BYTES, 0);
        const Descriptor b = describe(shared.b(state.stage, 0), SWIZZLE_128, 8 * LINE_BYTES, BOX_BYTES);
        begin_products();
#pragma unroll
        for (int s = 0; s < BLOCK_K / 16; ++s) {
            const int from = s * 16;
            start_product(sums, a + (from * 2 >> 4), b + (from * LINE_BYTES >> 4), s > 0 || accumulate);
        }
        close_products();
        wait_for_products<1>();
        if (before >= 0) release(before);
        before = state.stage;
        state.advance();
    }

    __device__ __forceinline__ void finish_tile()
    {
        wait_for_products<0>();
        if (before >= 0) release(before);
        before = -1;
    }
};

// A tile whose rounded elements are in registers.
struct Finished {
    Half* c;      // this lane's first chunk
    int rows;     // inside C from the lane's first row on
    int columns;  // inside C from the lane's first column on
};

// Round α·sums + βC to packed pairs. `c` points to the elements of a warp, 16 rows × BLOCK_N; `rows` × `columns`
// of it are inside C.
__device__ __forceinline__ void pack(
    unsigned (&packed)[SUMS / 2], const float (&sums)[SUMS], float alpha, float beta, const Half* c, long long ldc,
    int rows, int columns)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < SUMS; i += 2) {
        float low = alpha * sums[i], high = alpha * sums[i + 1];
        if (beta != 0.0f) {
            const int row = lane / 4 + (i >> 1 & 1) * 8;
            const int column = (i >> 2) * 8 + lane % 4 * 2;
            const Half* const from = c + row * ldc + column;
            if (row < rows && column < columns) low += beta * widen(from[0]);
            if (row < rows && column + 1 < columns) high += beta * widen(from[1]);
        }
        packed[i / 2] = round_pair(low, high);
    }
}

// Store 64 columns of a warp's 16 rows: transposed in shared memory, so that eight lanes store a line.
__device__ __forceinline__ void store_line(
    const unsigned (&packed)[SUMS / 2], int line, unsigned buffer, const Finished& tile, long long ldc, bool aligned)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int chunk = 0; chunk < LINE / 8; chunk += 2) {
        const unsigned* const from = packed + line * LINE_PAIRS + chunk * 2;
        const int row = lane % 16;
        const unsigned to = buffer + row * LINE_BYTES + ((chunk + lane / 16) ^ row % 8) * 16;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(from[0]),
                     "r"(from[1]), "r"(from[2]), "r"(from[3]) : "memory");
    }
    __syncwarp();
    const int columns = tile.columns - line * LINE;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = i * 4 + lane / 8;
        uint4 chunk;
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(chunk.x), "=r"(chunk.y), "=r"(chunk.z), "=r"(chunk.w)
                     : "r"(buffer + row * LINE_BYTES + (lane % 8 ^ row % 8) * 16) : "memory");
        if (i * 4 >= tile.rows || columns <= 0) continue;
        Half* const to = tile.c + i * 4 * ldc + line * LINE;
        if (aligned && columns >= 8) {
            *reinterpret_cast<uint4*>(to) = chunk;
        } else {
            const unsigned pairs[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                if (j < columns) to[j] = Half(pairs[j / 2] >> j % 2 * 16);
            }
        }
    }
    __syncwarp();
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1) multiply(
    long long m, long long n, int steps, float alpha, const __grid_constant__ TensorMap a_map,
    const __grid_constant__ TensorMap b_map, float beta, Half* __restrict__ c, long long ldc)
{
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    const Shared shared = {static_cast<unsigned>(__cvta_generic_to_shared(shared_bytes))};
    if (threadIdx.x == 0) {
        prefetch(&a_map);
        prefetch(&b_map);
        for (int stage = 0; stage < STAGES; ++stage) {
            start_barrier(shared.full(stage), 1);
            start_barrier(shared.empty(stage), CLUSTER * CONSUMERS);
        }
        publish_barriers();
    }
    synchronize_cluster();
    Tiles tiles(m, n);
    const int warpgroup = threadIdx.x / WARPGROUP;
    if (warpgroup == CONSUMERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGISTERS));
        if (threadIdx.x % WARPGROUP == 0) load_tiles(shared, tiles, steps, &a_map, &b_map);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGISTERS));
        const int lane = threadIdx.x % 32;
        const int warp = threadIdx.x / 32;
        const unsigned buffer = shared.epilogue(warp);
        const bool aligned = ldc % 8 == 0 && reinterpret_cast<unsigned long long>(c) % 16 == 0;
        Consumer consumer = {shared, {}, -1, warpgroup, int(threadIdx.x) % WARPGROUP};
        float sums[SUMS];
#pragma unroll
        for (int i = 0; i < SUMS; ++i) sums[i] = 0.0f;
        unsigned packed[SUMS / 2];
        Finished finished = {};  // none yet: nothing of it is inside C
        for (; tiles.has_work(); tiles.advance()) {
            int step = 0;
#pragma unroll
            for (int line = 0; line < BOXES; ++line) {
                if (step < steps) consumer.multiply_step(sums, step > 0);
                ++step;
                if (finished.c) store_line(packed, line, buffer, finished, ldc, aligned);
            }
#pragma unroll 1
            for (; step < steps; ++step) consumer.multiply_step(sums, true);
            consumer.finish_tile();
            const TileIndex tile_index = tiles.find_own();
            const long long row = tile_index.row * BLOCK_M + warp * 16;
            const long long column = tile_index.column * BLOCK_N;
            const int rows = max(0, clamp_to_int(m - row, 16));
            const int columns = clamp_to_int(n - column, BLOCK_N);
            Half* const of = c + row * ldc + column;
            pack(packed, sums, alpha, beta, of, ldc, rows, columns);
            finished = {of + lane / 8 * ldc + lane % 8 * 8, rows - lane / 8, columns - lane % 8 * 8};
        }
        if (finished.c) {
#pragma unroll
            for (int line = 0; line < BOXES; ++line) store_line(packed, line, buffer, finished, ldc, aligned);
        }
    }
    // No block ends while others still copy into its shared memory or arrive at its barriers.
    synchronize_cluster();
}
