// mbarriers in shared memory: who waits for what a bulk copy brings, or for who has read it.
//
// Compiled with STAGES defined: tiles in shared memory at the same time, each with two barriers.
#pragma once

constexpr int BARRIER_BYTES = 8;

__device__ __forceinline__ void start_barrier(unsigned barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

// Once all barriers are started: make that known to the copy engine.
__device__ __forceinline__ void publish_barriers()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrive, and have the barrier wait for that many bytes too.
__device__ __forceinline__ void expect_bytes(unsigned barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Wait for the end of the barrier's phase of that parity.
__device__ __forceinline__ void wait_for_phase(unsigned barrier, int parity)
{
    asm volatile(
        "{\n.reg .pred done;\n"
        "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra AGAIN;\n}" ::"r"(barrier), "r"(parity) : "memory");
}

// A stage's number and the parity of its barriers, which changes with every round.
struct Turn {
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
