// Waiting for other threads: first spin briefly, then sleep in the system.
#pragma once

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

// AWAKE_NANOSECONDS, NAP_NANOSECONDS and PAUSES are macros from native/tuned.py.
enum { EVERYONE = INT_MAX };

// Nanoseconds of the monotonic clock.
static inline int64_t read_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// The pause instruction for spin loops.
static inline void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// A counter that threads wait on (a futex): a thread that changes it wakes some of the sleepers.
typedef struct {
    _Atomic unsigned count;
    atomic_int sleeping;
} Word;

static inline unsigned read_word(Word* word) { return atomic_load(&word->count); }

// Increment the counter, and wake at most `sleepers` threads.
void change_word(Word* word, int sleepers);

// Wake at most `sleepers` threads without changing the counter.
void wake_sleepers(Word* word, int sleepers);

// Wait until the counter differs from `seen`. Spins for AWAKE_NANOSECONDS, then sleeps.
void await_word(Word* word, unsigned seen);

// The spinning part alone: returns 0 if the counter has not changed within this time.
int look_for_word(Word* word, unsigned seen, int64_t nanoseconds);

// The sleeping part alone.
void sleep_for_word(Word* word, unsigned seen);

// Wait until a count is 0. This is soon, so it polls: no thread signals it.
void await_nobody(atomic_int* count);
