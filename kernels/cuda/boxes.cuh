// Copies of boxes of a matrix by the bulk copy engine (cp.async.bulk.tensor).
//
// A tensor map describes the matrix. The engine computes addresses, fills in zeros outside the matrix and
// reports the bytes to an mbarrier.
#pragma once
#include "eviction.cuh"

struct alignas(64) TensorMap {
    unsigned char opaque[128];
};

// Start reading a tensor map, so that the first box need not wait for it.
__device__ __forceinline__ void prefetch(const TensorMap* map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Start copying the box of a matrix that begins at this row and column.
__device__ __forceinline__ void start_box(unsigned shared, const TensorMap* map, int row, int column, unsigned barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            shared),
        "l"(map), "r"(column), "r"(row), "r"(barrier) : "memory");
}

// The same, and what is read leaves the L2 cache first.
__device__ __forceinline__ void start_box_once(
    unsigned shared, const TensorMap* map, int row, int column, unsigned barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared),
        "l"(map), "r"(column), "r"(row), "r"(barrier), "l"(EVICT_FIRST) : "memory");
}

// Like start_box, into all blocks of the cluster that are in `blocks`, a bit each; to the same addresses, and with
// each block's own barrier.
__device__ __forceinline__ void start_shared_box(
    unsigned shared, const TensorMap* map, int row, int column, unsigned barrier, unsigned short blocks)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared),
        "l"(map), "r"(column), "r"(row), "r"(barrier), "h"(blocks) : "memory");
}
