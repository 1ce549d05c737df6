// Waiting for other threads: first spin briefly, then sleep in the system. On a crowded machine threads hardly spin.
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

// Functions that Python calls. All others stay inside the library.
#define EXPORTED __attribute__((visibility("default")))

// Who else wants more than half of the cores now: nobody, other threads of this process, as BLAS's that spin after a
// product, or other processes. Its own threads share the cores that the process may use, others all cores of the
// machine. This process's pool threads do not count.
enum { QUIET, CONTENDED, CROWDED };
EXPORTED int find_crowd(void);

// Count awake pool threads there from now on, for all libraries of the process together.
EXPORTED void share_awake(atomic_int* count);

// Note that a pool thread has awoken, 1, or will sleep, -1.
void count_awake(int change);

// How long to spin now, where `nanoseconds` are right on a quiet machine.
int64_t find_patience(int64_t nanoseconds);

// Yield the core; returns whether another thread has had it for a while.
int yield_core(void);

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
