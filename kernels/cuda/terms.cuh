// terms: float32 → three bfloat16 whose sum is exact, in tiles laid out for the tensor cores.
//
// x = x1 + x2 + x3, each the bfloat16 nearest to the remainder. Each holds 8 of the 24 bits, so the sum
// is exact if the last bit of x3 is at least the smallest normal number: from |x| = 2^-103 on.
//
// A becomes tiles of 128 rows × 32 steps of k, B tiles of 128 columns × 32 steps of k, padded with
// zeros. A tile has 24 KiB: all x1, then all x2, then all x3, each as 128 lines of 64 bytes. The four
// 16-byte chunks of a line are permuted by the line's number (64-byte swizzle), so that eight lines read
// at one chunk touch all banks. This is the layout that wgmma reads from shared memory, so one bulk copy
// brings a tile there. The tiles of a strip (128 rows of A or columns of B) follow one another along k;
// the next strip begins `pitch` tiles later.
//
// A tile is assembled in shared memory and stored by one bulk copy. Direct stores would be scattered:
// neighbouring threads hold neighbouring columns of B, whose chunks of 16 bytes are 64 bytes apart.
//
// Launch: 512 threads, any number of blocks (each decomposes every gridDim.x-th tile, so n blocks use n
// multiprocessors); dynamic shared memory for two tiles. Compiled with TERM_BLOCKS defined: the blocks that
// must fit a multiprocessor.
#pragma once
#include "product.cuh"

constexpr int TILE_LINES = 128;
constexpr int TILE_DEPTH = 32;
constexpr int TERMS = 3;
constexpr int LINE_BYTES = TILE_DEPTH * 2;
constexpr int PART_BYTES = TILE_LINES * LINE_BYTES;
constexpr int TILE_BYTES = TERMS * PART_BYTES;
constexpr int CHUNK = 8;  // elements; their bfloat16 fill 16 bytes
constexpr int LINE_CHUNKS = TILE_DEPTH / CHUNK;
constexpr int TERM_THREADS = TILE_LINES * LINE_CHUNKS;

// What the kernels report to each other: zeros before A and B are decomposed.
struct Verdict {
    unsigned largest_a;  // largest |a| as the bits of a float; INEXACT if an element has no exact terms
    unsigned rejected;   // 1 if the strict kernel must compute the product
    unsigned largest_b;
};

constexpr unsigned INEXACT = 0x7fffffff;     // a NaN, larger than any number
constexpr unsigned SMALLEST = (127 - 103) << 23;  // 2^-103

// Whether the terms represent A and B exactly, and no sum of their products can overflow or vanish. A
// partial product has at most 1.01 times the magnitude of the full product.
__device__ __forceinline__ bool is_safe(const Verdict& verdict, long long k)
{
    const double largest_a = __uint_as_float(verdict.largest_a);
    const double largest_b = __uint_as_float(verdict.largest_b);
    const double bound = largest_a * largest_b * double(k);
    return bound > 0x1p-60 && bound < 0x1p126 && largest_a < 0x1p127 && largest_b < 0x1p127;
}

struct alignas(16) Chunk {
    unsigned short of[CHUNK];
};

__device__ __forceinline__ unsigned short round_to_bfloat16(float x)
{
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

__device__ __forceinline__ float widen(unsigned short bits)
{
    return __uint_as_float(unsigned(bits) << 16);
}

// Decompose eight elements; returns the largest of their magnitudes and `largest`.
__device__ __forceinline__ unsigned decompose_chunk(Chunk (&parts)[TERMS], const float (&x)[CHUNK], unsigned largest)
{
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) {
        const unsigned magnitude = __float_as_uint(x[i]) & 0x7fffffff;
        largest = max(largest, magnitude != 0 && magnitude < SMALLEST ? INEXACT : magnitude);
        float left = x[i];
#pragma unroll
        for (int part = 0; part < TERMS; ++part) {
            parts[part].of[i] = round_to_bfloat16(left);
            left -= widen(parts[part].of[i]);
        }
    }
    return largest;
}

__device__ __forceinline__ void store_chunk(unsigned char* tile, int line, int chunk, const Chunk (&parts)[TERMS])
{
    const int offset = line * LINE_BYTES + (chunk ^ (line >> 1 & 3)) * 16;
#pragma unroll
    for (int part = 0; part < TERMS; ++part) {
        *reinterpret_cast<Chunk*>(tile + part * PART_BYTES + offset) = parts[part];
    }
}

// Start a bulk copy of a tile from shared to global memory. A proxy fence must precede it.
__device__ __forceinline__ void start_tile_store(unsigned char* global, const unsigned char* shared)
{
    asm volatile(
        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
        "cp.async.bulk.commit_group;" ::"l"(global),
        "r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))), "n"(TILE_BYTES) : "memory");
}

// Wait until all of this thread's copies but the last PENDING have read shared memory.
template <int PENDING>
__device__ __forceinline__ void wait_for_tile_stores()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// One atomic operation for each warp, and only if it would change the value.
__device__ __forceinline__ void report_largest(unsigned* to, unsigned largest)
{
    largest = __reduce_max_sync(0xffffffff, largest);
    if (threadIdx.x % 32 == 0 && largest > *reinterpret_cast<volatile unsigned*>(to)) atomicMax(to, largest);
}

// Decompose all tiles. A thread decomposes one chunk of each tile; read(x, line, k) loads its elements.
template <typename Read>
__device__ __forceinline__ void decompose_tiles(
    long long lines, long long k, int line, int chunk, unsigned char* tiles, long long pitch, unsigned* largest_of_all,
    Read read)
{
    extern __shared__ __align__(1024) unsigned char term_bytes[];
    const unsigned tiles_k = (k + TILE_DEPTH - 1) / TILE_DEPTH;
    const unsigned count = (lines + TILE_LINES - 1) / TILE_LINES * tiles_k;
    unsigned largest = 0;
    unsigned char* shared = term_bytes;
    unsigned char* other = term_bytes + TILE_BYTES;
    for (unsigned tile = blockIdx.x; tile < count; tile += gridDim.x) {
        const unsigned strip = tile / tiles_k;
        const unsigned step = tile % tiles_k;
        float x[CHUNK];
        read(x, (long long)strip * TILE_LINES + line, (long long)step * TILE_DEPTH + chunk * CHUNK);
        Chunk parts[TERMS];
        largest = decompose_chunk(parts, x, largest);
        if (threadIdx.x == 0) wait_for_tile_stores<1>();
        __syncthreads();
        store_chunk(shared, line, chunk, parts);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) start_tile_store(tiles + (strip * pitch + step) * TILE_BYTES, shared);
        unsigned char* const filled = shared;
        shared = other;
        other = filled;
    }
    if (threadIdx.x == 0) wait_for_tile_stores<0>();
    report_largest(largest_of_all, largest);
}

// Decompose A[M,K]: rows become lines. A thread reads eight adjacent elements of a row.
extern "C" __global__ void __launch_bounds__(TERM_THREADS, TERM_BLOCKS) decompose_rows(
    long long m, long long k, const float* __restrict__ a, long long lda, unsigned char* tiles,
    long long pitch, Verdict* verdict)
{
    const bool aligned = lda % 4 == 0 && reinterpret_cast<unsigned long long>(a) % 16 == 0;
    const auto read = [=](float (&x)[CHUNK], long long row, long long column) {
        const float* const from = a + row * lda + column;
        if (aligned && row < m && column + CHUNK <= k) {
            *reinterpret_cast<float4*>(x) = *reinterpret_cast<const float4*>(from);
            *reinterpret_cast<float4*>(x + 4) = *reinterpret_cast<const float4*>(from + 4);
        } else {
#pragma unroll
            for (int j = 0; j < CHUNK; ++j) x[j] = row < m && column + j < k ? from[j] : 0.0f;
        }
    };
    const int line = threadIdx.x / LINE_CHUNKS;
    const int chunk = threadIdx.x % LINE_CHUNKS;
    decompose_tiles(m, k, line, chunk, tiles, pitch, &verdict->largest_a, read);
}

// Decompose B[K,N]: columns become lines. A thread reads eight adjacent elements of a column, a warp 32 of a
// row.
extern "C" __global__ void __launch_bounds__(TERM_THREADS, TERM_BLOCKS) decompose_columns(
    long long n, long long k, const float* __restrict__ b, long long ldb, unsigned char* tiles,
    long long pitch, Verdict* verdict)
{
    const auto read = [=](float (&x)[CHUNK], long long column, long long row) {
        const float* const from = b + row * ldb + column;
#pragma unroll
        for (int j = 0; j < CHUNK; ++j) x[j] = column < n && row + j < k ? from[j * ldb] : 0.0f;
    };
    const int line = threadIdx.x % TILE_LINES;
    const int chunk = threadIdx.x / TILE_LINES;
    decompose_tiles(n, k, line, chunk, tiles, pitch, &verdict->largest_b, read);
}
