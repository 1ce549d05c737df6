// Accesses to global memory that leave the L2 cache first.
//
// While a kernel's data fill the L2 cache, copies of parts of rows between the host and the device take up to
// 1.7 times as long, until other kernels' data replace them. After kernels whose accesses are all of this kind
// they do not. Within a kernel the cache still serves blocks that read the same tiles. (Measured on an H100;
// docs/notes/page-locked-memory.md.)
#pragma once

// Cache policy of asynchronous copies: evict_first for all that is read. The number is what createpolicy
// returns; CUTLASS uses it, too.
constexpr unsigned long long EVICT_FIRST = 0x12F0000000000000;

// Read or write 4, 8 or 16 bytes.
template <typename T>
__device__ __forceinline__ T read_once(const T* from)
{
    if constexpr (sizeof(T) == 16) {
        const int4 bits = __ldcs(reinterpret_cast<const int4*>(from));
        return reinterpret_cast<const T&>(bits);
    } else {
        return __ldcs(from);
    }
}

template <typename T>
__device__ __forceinline__ void write_once(T* to, const T& value)
{
    if constexpr (sizeof(T) == 16) {
        __stcs(reinterpret_cast<int4*>(to), reinterpret_cast<const int4&>(value));
    } else {
        __stcs(to, value);
    }
}
