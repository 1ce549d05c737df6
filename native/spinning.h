// Waiting for other threads without a call to the system, for all C libraries.
#pragma once

#include <stdint.h>
#include <time.h>

enum {
    AWAKE_NANOSECONDS = 200000,  // who waits looks so long for news before it sleeps
    LOOKS = 64,  // for news, before the clock is read again or the core is offered to others
};

// Nanoseconds of a clock that only goes forward.
static inline int64_t read_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// One turn of a loop that waits.
static inline void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
