// Blocks of one cluster: neighbouring multiprocessors that reach each other's shared memory.
#pragma once

// Wait for all threads of the cluster.
__device__ __forceinline__ void synchronize_cluster()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Arrive at the barrier at this address in the shared memory of block `rank` of the cluster.
//
// It releases to this block only. A release to the cluster would wait for all of this thread's stores to
// global memory, each time; a thread that has only read needs none.
__device__ __forceinline__ void arrive_at(unsigned barrier, int rank)
{
    asm volatile(
        "{\n.reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier), "r"(rank) : "memory");
}
