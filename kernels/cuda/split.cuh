// split: float32 → three bfloat16 that add up to it, in tiles laid out as the tensor cores read them.
//
// x = x1 + x2 + x3, each the bfloat16 nearest to what is left: 8 bits of the 24 each, so nothing is
// lost while the last bit of x3 stays above the smallest normal number, that is from |x| = 2^-103.
//
// A becomes tiles of 128 rows × 32 steps of k, B tiles of 128 columns × 32 steps of k; outside the
// matrix they hold zeros. A tile is 24 KiB: first all x1, then all x2, then all x3, each part 128
// lines of 64 bytes. Within a line the four chunks of 16 bytes are permuted by the number of the
// line ("64-byte swizzle"), so that eight lines read at the same chunk touch all banks: exactly what
// shared memory must hold for wgmma, so that a tile is brought there by one bulk copy. The tiles of
// a strip (of rows of A, of columns of B) follow one another along k.
//
// Launch: 256 threads, one block for each tile, those of a strip in a row; 4 bytes of
// dynamic shared memory.
#pragma once
#include "product.cuh"

constexpr int TILE_LINES = 128;
constexpr int TILE_DEPTH = 32;
constexpr int SPLITS = 3;
constexpr int LINE_BYTES = TILE_DEPTH * 2;
constexpr int PART_BYTES = TILE_LINES * LINE_BYTES;
constexpr int TILE_BYTES = SPLITS * PART_BYTES;
constexpr int SPLIT_THREADS = 256;
constexpr int CHUNK = 8;  // elements whose bfloat16 fill 16 bytes
constexpr int LINE_CHUNKS = TILE_DEPTH / CHUNK;

// What the splits and the product tell one another; zeros before the splits begin.
struct Verdict {
    unsigned largest_a;  // largest |a|, as the bits of a float; UNSPLITTABLE where one cannot be split
    unsigned rejected;   // 1 when the product is left to a kernel that computes in float32
    unsigned largest_b;
};

constexpr unsigned UNSPLITTABLE = 0x7fffffff;     // a NaN, larger than any number
constexpr unsigned SMALLEST = (127 - 103) << 23;  // 2^-103

// Whether the splits hold all of A and B, and no sum of their products can overflow or vanish:
// a partial product has at most 1.01 times the magnitude of the product it is a part of.
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

// Split eight elements; returns the largest magnitude of them and `largest`.
__device__ __forceinline__ unsigned split_chunk(Chunk (&parts)[SPLITS], const float (&x)[CHUNK], unsigned largest)
{
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) {
        const unsigned magnitude = __float_as_uint(x[i]) & 0x7fffffff;
        largest = max(largest, magnitude != 0 && magnitude < SMALLEST ? UNSPLITTABLE : magnitude);
        float left = x[i];
#pragma unroll
        for (int part = 0; part < SPLITS; ++part) {
            parts[part].of[i] = round_to_bfloat16(left);
            left -= widen(parts[part].of[i]);
        }
    }
    return largest;
}

__device__ __forceinline__ void store_chunk(unsigned char* tile, int line, int chunk, const Chunk (&parts)[SPLITS])
{
    const int offset = line * LINE_BYTES + (chunk ^ (line >> 1 & 3)) * 16;
#pragma unroll
    for (int part = 0; part < SPLITS; ++part) {
        *reinterpret_cast<Chunk*>(tile + part * PART_BYTES + offset) = parts[part];
    }
}

// One atomic operation a block, and only where it would change something.
__device__ __forceinline__ void report_largest(unsigned* to, unsigned largest)
{
    extern __shared__ unsigned of_block[];
    if (threadIdx.x == 0) *of_block = 0;
    __syncthreads();
    largest = __reduce_max_sync(0xffffffff, largest);
    if (threadIdx.x % 32 == 0) atomicMax(of_block, largest);
    __syncthreads();
    if (threadIdx.x == 0 && *of_block > *reinterpret_cast<volatile unsigned*>(to)) atomicMax(to, *of_block);
}

// A[M,K], whose rows are the lines of its tiles. A thread reads eight neighbours of a row.
extern "C" __global__ void __launch_bounds__(SPLIT_THREADS) split_rows(
    long long m, long long k, const float* __restrict__ a, long long lda,
    unsigned char* __restrict__ tiles, Verdict* verdict)
{
    const unsigned tiles_k = (k + TILE_DEPTH - 1) / TILE_DEPTH;
    const long long first_row = (long long)(blockIdx.x / tiles_k) * TILE_LINES;
    const long long first_column = (long long)(blockIdx.x % tiles_k) * TILE_DEPTH;
    const bool aligned = lda % 4 == 0 && reinterpret_cast<unsigned long long>(a) % 16 == 0;
    unsigned char* const tile = tiles + (long long)blockIdx.x * TILE_BYTES;
    unsigned largest = 0;
#pragma unroll
    for (int i = threadIdx.x; i < TILE_LINES * LINE_CHUNKS; i += SPLIT_THREADS) {
        const int line = i / LINE_CHUNKS;
        const int chunk = i % LINE_CHUNKS;
        const long long row = first_row + line;
        const long long column = first_column + chunk * CHUNK;
        const float* const from = a + row * lda + column;
        float x[CHUNK];
        if (aligned && row < m && column + CHUNK <= k) {
            *reinterpret_cast<float4*>(x) = *reinterpret_cast<const float4*>(from);
            *reinterpret_cast<float4*>(x + 4) = *reinterpret_cast<const float4*>(from + 4);
        } else {
#pragma unroll
            for (int j = 0; j < CHUNK; ++j) x[j] = row < m && column + j < k ? from[j] : 0.0f;
        }
        Chunk parts[SPLITS];
        largest = split_chunk(parts, x, largest);
        store_chunk(tile, line, chunk, parts);
    }
    report_largest(&verdict->largest_a, largest);
}

// B[K,N], whose columns are the lines of its tiles. A thread reads eight neighbours of a column, a
// warp 32 neighbours of a row.
extern "C" __global__ void __launch_bounds__(SPLIT_THREADS) split_columns(
    long long n, long long k, const float* __restrict__ b, long long ldb,
    unsigned char* __restrict__ tiles, Verdict* verdict)
{
    const unsigned tiles_k = (k + TILE_DEPTH - 1) / TILE_DEPTH;
    const int line = threadIdx.x % TILE_LINES;
    const long long column = (long long)(blockIdx.x / tiles_k) * TILE_LINES + line;
    const long long first_row = (long long)(blockIdx.x % tiles_k) * TILE_DEPTH;
    unsigned char* const tile = tiles + (long long)blockIdx.x * TILE_BYTES;
    unsigned largest = 0;
#pragma unroll
    for (int chunk = threadIdx.x / TILE_LINES; chunk < LINE_CHUNKS; chunk += SPLIT_THREADS / TILE_LINES) {
        const long long row = first_row + chunk * CHUNK;
        float x[CHUNK];
#pragma unroll
        for (int j = 0; j < CHUNK; ++j) x[j] = column < n && row + j < k ? b[(row + j) * ldb + column] : 0.0f;
        Chunk parts[SPLITS];
        largest = split_chunk(parts, x, largest);
        store_chunk(tile, line, chunk, parts);
    }
    report_largest(&verdict->largest_b, largest);
}
