// mbarriers in shared memory, two for each stage: full (its bulk copies have arrived) and empty (all
// readers are done).
//
// Compiled with STAGES defined, the number of stages.
#pragma once

constexpr int BARRIER_BYTES = 8;

__device__ __forceinline__ void start_barrier(unsigned barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

// Make initialized barriers visible to the bulk copy engine.
__device__ __forceinline__ void publish_barriers()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrive, and make the barrier's phase wait for `bytes` bytes, too.
__device__ __forceinline__ void expect_bytes(unsigned barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Wait until the barrier's phase of this parity has ended.
__device__ __forceinline__ void wait_for_phase(unsigned barrier, int parity)
{
    asm volatile(
        "{\n.reg .pred done;\n"
        "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra AGAIN;\n}" ::"r"(barrier), "r"(parity) : "memory");
}

// The current stage and the parity of its barriers, which flips with every round of all stages
// (as CUTLASS's PipelineState).
struct PipelineState {
    int stage = 0;
    int parity = 0;

    __device__ __forceinline__ void advance()
    {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};
