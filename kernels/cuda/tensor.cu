// tensor (float32): products of bfloat16 terms on Hopper's tensor cores, as accurate as float32.
//
// With a = a1 + a2 + a3 and b likewise (terms.cuh), a·b is the sum of nine products of bfloat16,
// each exact in float32. The three smallest are below 2^-24 of a·b and are left out; six remain.
// Tensor cores sum in float32 but truncate where an FADD rounds, so long sums there drift toward zero.
// Only short sums are kept there:
//   - a1·b1 of CHAIN times 16 steps of k goes into an accumulator that begins at zero: products of
//     8×8 bits, almost exact. An FADD adds it to the running sum.
//   - The five others are at most 2^-7 of a1·b1, and so are their truncation errors. They have an
//     accumulator of their own (small), smallest products first within a step.
//   - After FLUSH tiles both are added to a total in shared memory. The running sum restarts at zero, the
//     small one with the rounding error of the addition (Kahan, "Further remarks on reducing truncation
//     errors", 1965). So errors do not grow with the number of flushes.
//
// Three warpgroups: one thread of the third copies tiles of A and B by bulk copies, STAGES steps ahead;
// the first two compute 64 × 128 elements each. The FADDs of a step overlap with its five small products
// on the tensor cores. Each stage has an mbarrier for full (its bytes have arrived) and one for empty
// (both warpgroups have read it). Blocks are persistent: each computes every gridDim.x-th tile, and the
// copies run ahead across tiles.
//
// The FADDs are volatile assembly. Written as +=, the assembler would wait for all wgmma in flight before
// each use of the accumulator (warning C7511).
//
// Launch: 384 threads, at most one block a multiprocessor; SHARED_BYTES of dynamic shared memory. If the
// verdict on the terms is that A and B are not safe, the kernel sets `rejected` for the strict kernel
// after it and returns at once.
#include "barriers.cuh"
#include "order.cuh"
#include "product.cuh"
#include "terms.cuh"
#include "wgmma.cuh"

constexpr int CONSUMERS = 2;  // warpgroups that compute
constexpr int WARPGROUP = 128;
constexpr int THREADS = (CONSUMERS + 1) * WARPGROUP;
constexpr int STAGE_BYTES = 2 * TILE_BYTES;
constexpr int SUMS = 64;  // elements of C in a thread
constexpr int TOTALS_BYTES = CONSUMERS * WARPGROUP * SUMS * 4;
constexpr int STEPS = TILE_DEPTH / 16;  // a wgmma takes 16 steps of k
constexpr int PRODUCER_REGISTERS = 24;
constexpr int CONSUMER_REGISTERS = 240;

static_assert(BLOCK_M == TILE_LINES && BLOCK_N == TILE_LINES && BLOCK_K == TILE_DEPTH, "tiles are those of terms.cuh");
static_assert(STAGES * (STAGE_BYTES + 2 * BARRIER_BYTES) + TOTALS_BYTES == SHARED_BYTES, "the launch must agree");
static_assert(CHAIN == 1 || CHAIN == STEPS, "a chain ends with a tile");

__device__ __forceinline__ void start_bulk_copy(unsigned shared, const unsigned char* global, unsigned barrier)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
        "l"(global), "n"(TILE_BYTES), "r"(barrier) : "memory");
}

// Start d ← a·b (+ d if `accumulate`) for 64 × 128 elements and 16 steps of k.
__device__ __forceinline__ void start_product(float (&d)[SUMS], Descriptor a, Descriptor b, int accumulate)
{
    asm volatile(
        "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, accumulate, 1, 1, 0, 0;\n}"
        : EIGHT(d, 0), EIGHT(d, 8), EIGHT(d, 16), EIGHT(d, 24), EIGHT(d, 32), EIGHT(d, 40), EIGHT(d, 48), EIGHT(d, 56)
        : "l"(a), "l"(b), "r"(accumulate));
}

// Keep the compiler from moving uses of these registers across this point.
__device__ __forceinline__ void pin(float (&d)[SUMS])
{
#pragma unroll
    for (int i = 0; i < SUMS; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Addresses in shared memory.
struct Shared {
    unsigned base;

    __device__ __forceinline__ unsigned a(int stage) const { return base + stage * STAGE_BYTES; }
    __device__ __forceinline__ unsigned b(int stage) const { return a(stage) + TILE_BYTES; }
    __device__ __forceinline__ unsigned full(int stage) const
    {
        return base + STAGES * STAGE_BYTES + TOTALS_BYTES + stage * BARRIER_BYTES;
    }
    __device__ __forceinline__ unsigned empty(int stage) const { return full(stage) + STAGES * BARRIER_BYTES; }
};

// Run by one thread: copy the tiles of A and B for one tile of C.
__device__ __forceinline__ void load_tiles(
    Shared shared, PipelineState& state, const unsigned char* a, const unsigned char* b, int tiles_k)
{
    for (int step = 0; step < tiles_k; ++step) {
        wait_for_phase(shared.empty(state.stage), state.parity ^ 1);
        expect_bytes(shared.full(state.stage), STAGE_BYTES);
        start_bulk_copy(shared.a(state.stage), a + (long long)step * TILE_BYTES, shared.full(state.stage));
        start_bulk_copy(shared.b(state.stage), b + (long long)step * TILE_BYTES, shared.full(state.stage));
        state.advance();
    }
}

// Add both sums to a total; the rounding error stays in the small one.
__device__ __forceinline__ void flush(float& total, float& sum, float& small)
{
    const float both = sum + small;
    const float before = total;
    total = before + both;
    small = both - (total - before);
    sum = 0.0f;
}

// Run by a warpgroup: `sum` ← its elements of a tile of C. `totals` points to this thread's totals in
// shared memory, interleaved with those of neighbouring threads.
__device__ __forceinline__ void multiply_tiles(
    float (&sum)[SUMS], Shared shared, PipelineState& state, int warpgroup, float4* totals, int tiles_k)
{
    constexpr Descriptor PART = PART_BYTES >> 4;
    constexpr int TOTALS_STEP = CONSUMERS * WARPGROUP;
    const bool speaks = threadIdx.x % WARPGROUP == 0;
    float lead[SUMS], small[SUMS];
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sum[i] = lead[i] = small[i] = 0.0f;
    pin(small);
    int unflushed = 0;
    bool flushed = false;
    int before = -1;  // the stage whose products may still be in flight

    for (int step = 0; step < tiles_k; ++step) {
        wait_for_phase(shared.full(state.stage), state.parity);
        const Descriptor a = describe(shared.a(state.stage) + warpgroup * 64 * LINE_BYTES, SWIZZLE_64, 8 * LINE_BYTES);
        const Descriptor b = describe(shared.b(state.stage), SWIZZLE_64, 8 * LINE_BYTES);
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
            const Descriptor a1 = a + s * 2, a2 = a1 + PART, a3 = a2 + PART;
            const Descriptor b1 = b + s * 2, b2 = b1 + PART, b3 = b2 + PART;
            pin(lead);
            begin_products();
            start_product(lead, a1, b1, s % CHAIN != 0);
            close_products();
            start_product(small, a3, b1, 1);
            start_product(small, a1, b3, 1);
            start_product(small, a2, b2, 1);
            start_product(small, a2, b1, 1);
            start_product(small, a1, b2, 1);
            close_products();
            wait_for_products<1>();
            pin(lead);
            if (s == 0 && before >= 0 && speaks) arrive(shared.empty(before));
            if ((s + 1) % CHAIN == 0) {
#pragma unroll
                for (int i = 0; i < SUMS; ++i) asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(sum[i]) : "f"(lead[i]));
            }
        }
        if (++unflushed == FLUSH) {
            unflushed = 0;
            wait_for_products<0>();
            pin(small);
#pragma unroll
            for (int i = 0; i < SUMS; i += 4) {
                float4* const total = totals + i / 4 * TOTALS_STEP;
                float4 of = flushed ? *total : make_float4(0, 0, 0, 0);
                flush(of.x, sum[i], small[i]);
                flush(of.y, sum[i + 1], small[i + 1]);
                flush(of.z, sum[i + 2], small[i + 2]);
                flush(of.w, sum[i + 3], small[i + 3]);
                *total = of;
            }
            pin(small);
            flushed = true;
        }
        before = state.stage;
        state.advance();
    }
    wait_for_products<0>();
    pin(small);
    if (speaks) arrive(shared.empty(before));
#pragma unroll
    for (int i = 0; i < SUMS; i += 4) {
        const float4 total = flushed ? totals[i / 4 * TOTALS_STEP] : make_float4(0, 0, 0, 0);
        sum[i] = (sum[i] + small[i]) + total.x;
        sum[i + 1] = (sum[i + 1] + small[i + 1]) + total.y;
        sum[i + 2] = (sum[i + 2] + small[i + 2]) + total.z;
        sum[i + 3] = (sum[i + 3] + small[i + 3]) + total.w;
    }
}

// Store a tile. A thread holds pairs of adjacent elements in two rows, 8 apart, every 8 columns.
__device__ __forceinline__ void store_tile(
    const float (&sum)[SUMS], TileIndex tile_index, int warpgroup, long long m, long long n, float alpha,
    float beta, float* __restrict__ c, long long ldc)
{
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x % WARPGROUP / 32;
    const long long first_row = tile_index.row * BLOCK_M + warpgroup * 64 + warp * 16 + lane / 4;
    const long long first_column = tile_index.column * BLOCK_N + lane % 4 * 2;
    const bool paired = ldc % 2 == 0 && reinterpret_cast<unsigned long long>(c) % 8 == 0;
#pragma unroll
    for (int i = 0; i < SUMS; i += 2) {
        const long long row = first_row + (i >> 1 & 1) * 8;
        const long long column = first_column + (i >> 2) * 8;
        if (row >= m || column >= n) continue;
        float* const to = c + row * ldc + column;
        if (paired && column + 1 < n) {
            float2 result = {};
            if (beta != 0.0f) result = *reinterpret_cast<float2*>(to);
            update(&result.x, sum[i], alpha, beta);
            update(&result.y, sum[i + 1], alpha, beta);
            *reinterpret_cast<float2*>(to) = result;
        } else {
            update(to, sum[i], alpha, beta);
            if (column + 1 < n) update(to + 1, sum[i + 1], alpha, beta);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) multiply(
    long long m, long long n, long long k, float alpha, const unsigned char* __restrict__ a_tiles,
    const unsigned char* __restrict__ b_tiles, long long b_pitch, float beta, float* __restrict__ c,
    long long ldc, Verdict* verdict)
{
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    if (!is_safe(*verdict, k)) {
        if (blockIdx.x == 0 && threadIdx.x == 0) verdict->rejected = 1;
        return;
    }
    const Shared shared = {static_cast<unsigned>(__cvta_generic_to_shared(shared_bytes))};
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            start_barrier(shared.full(stage), 1);
            start_barrier(shared.empty(stage), CONSUMERS);
        }
        publish_barriers();
    }
    __syncthreads();

    const long long tiles_m = (m + BLOCK_M - 1) / BLOCK_M;
    const long long tiles_n = (n + BLOCK_N - 1) / BLOCK_N;
    const int tiles_k = int((k + BLOCK_K - 1) / BLOCK_K);
    const long long a_strip_bytes = (long long)tiles_k * TILE_BYTES;
    const long long b_strip_bytes = b_pitch * TILE_BYTES;
    const int warpgroup = threadIdx.x / WARPGROUP;
    PipelineState state;
    if (warpgroup == CONSUMERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGISTERS));
        if (threadIdx.x % WARPGROUP == 0) {
            for (long long tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
                const TileIndex tile_index = find_tile(tile, tiles_m, tiles_n);
                const unsigned char* const a = a_tiles + tile_index.row * a_strip_bytes;
                load_tiles(shared, state, a, b_tiles + tile_index.column * b_strip_bytes, tiles_k);
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGISTERS));
        float4* const totals = reinterpret_cast<float4*>(shared_bytes + STAGES * STAGE_BYTES) + threadIdx.x;
        for (long long tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
            float sum[SUMS];
            multiply_tiles(sum, shared, state, warpgroup, totals, tiles_k);
            store_tile(sum, find_tile(tile, tiles_m, tiles_n), warpgroup, m, n, alpha, beta, c, ldc);
        }
    }
}
