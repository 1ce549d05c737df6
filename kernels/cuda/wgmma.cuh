// wgmma: products on Hopper's tensor cores by a warpgroup, of matrices in shared memory.
//
// begin_products() comes before the first product of a group, close_products() after its last. They run until
// they are waited for; from begin_products() until then, the registers of the sums may not be touched.
#pragma once

typedef unsigned long long Descriptor;

enum Swizzle { SWIZZLE_128 = 1, SWIZZLE_64 = 2 };  // by the bytes of a line

// The descriptor of a matrix in shared memory: its address, and the distances in bytes between groups of 8
// lines, and between blocks as wide as a line, which does not matter if there is one.
__device__ __forceinline__ Descriptor describe(
    unsigned shared, Swizzle swizzle, int group_bytes, int block_bytes = 16)
{
    const Descriptor blocks = block_bytes >> 4, groups = group_bytes >> 4;
    return Descriptor(shared >> 4 & 0x3fff) | blocks << 16 | groups << 32 | Descriptor(swizzle) << 62;
}

#define EIGHT(d, i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])

__device__ __forceinline__ void begin_products()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void close_products()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Wait for all groups of products but the last PENDING.
template <int PENDING>
__device__ __forceinline__ void wait_for_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
