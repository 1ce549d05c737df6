// Asynchronous copies (cp.async) from global to shared memory, which need no registers.
#pragma once
#include "eviction.cuh"
#include "product.cuh"

// NVRTC 13.0 to 13.3 encodes some copies with a cache policy as illegal instructions: if a part of the address in
// shared memory is uniform, the copy names uniform registers 0 and 1, and not those of that part and the policy.
#define ENCODES_POLICIES (__CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1304)

constexpr int VECTOR = 16 / sizeof(element);

struct alignas(16) Vector {
    element of[VECTOR];
};

// Start copying BYTES bytes; those after the first `valid` are filled with zeros. What is read 16 bytes at a
// time leaves the L2 cache first, if the compiler can say so.
template <int BYTES>
__device__ __forceinline__ void start_copy(element* shared, const element* global, int valid)
{
#if __CUDA_ARCH__ >= 800
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (BYTES == 16) {
#if ENCODES_POLICIES
        asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(to), "l"(global),
                     "r"(valid), "l"(EVICT_FIRST));
#else
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(valid));
#endif
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global), "n"(BYTES), "r"(valid));
    }
#else  // Turing has no asynchronous copy
    if (BYTES == 16 && valid == 16) {
        *reinterpret_cast<Vector*>(shared) = *reinterpret_cast<const Vector*>(global);
    } else {
        for (int i = 0; i < int(BYTES / sizeof(element)); ++i) {
            shared[i] = i < int(valid / sizeof(element)) ? global[i] : element(0);
        }
    }
#endif
}

// Close the group of copies that were started since the last call.
__device__ __forceinline__ void close_copies()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Wait until all of this thread's groups but the last PENDING have arrived.
template <int PENDING>
__device__ __forceinline__ void wait_for_copies()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

// Start copying a chunk of VECTOR elements. Elements after the first `valid` are outside the matrix: they
// are not read, and zeros are stored. If `valid` is 0, `global` may be any address.
template <bool ALIGNED>
__device__ __forceinline__ void start_chunk(element* shared, const element* global, int valid)
{
    constexpr int BYTES = sizeof(element);
    if constexpr (ALIGNED) {
        start_copy<16>(shared, global, valid * BYTES);
    } else {
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) {
            start_copy<BYTES>(shared + i, global + i, i < valid ? BYTES : 0);
        }
    }
}
