// Accesses to global memory that leave the L2 cache first.
//
// While a kernel's data fill the L2 cache, copies of parts of rows between the host and the device take up to
// 1.7 times as long, until other kernels' data replace them. After kernels whose accesses are all of this kind
// they do not. Within a kernel the cache still serves blocks that read the same tiles. (Measured on an H100;
// docs/notes/memory.md.)
#pragma once

// Cache policy of asynchronous copies: evict_first for all that is read. The number is what createpolicy
// returns; CUTLASS uses it, too.
constexpr unsigned long long EVICT_FIRST = 0x12F0000000000000;

// Read or write a vector of 16 bytes.
template <typename Vector>
__device__ __forceinline__ Vector read_once(const Vector* from)
{
    static_assert(sizeof(Vector) == sizeof(int4), "a vector has 16 bytes");
    const int4 bits = __ldcs(reinterpret_cast<const int4*>(from));
    return reinterpret_cast<const Vector&>(bits);
}

template <typename Vector>
__device__ __forceinline__ void write_once(Vector* to, const Vector& value)
{
    static_assert(sizeof(Vector) == sizeof(int4), "a vector has 16 bytes");
    __stcs(reinterpret_cast<int4*>(to), reinterpret_cast<const int4&>(value));
}
