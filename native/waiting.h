// Waiting for other threads: for a moment without a call to the system, then asleep.
#pragma once

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

enum {
    AWAKE_NANOSECONDS = 200000,  // who waits looks so long for news before it sleeps
    LOOKS = 64,  // for news, before the clock is read again or the core is offered to others
    EVERYONE = INT_MAX,
};

#define NEVER INT64_MAX

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

// A count that threads wait for: who changes it wakes some of those that sleep for it.
typedef struct {
    _Atomic unsigned count;
    atomic_int sleeping;
} Word;

static inline unsigned read_word(Word* word) { return atomic_load(&word->count); }

// Count on, and wake at most so many sleepers.
void change_word(Word* word, int sleepers);

// Wake at most so many sleepers, for whom the word has changed already.
void wake_sleepers(Word* word, int sleepers);

// Return 1 when the word's count is no longer this one, or 0 when the clock stands at `until`. Looks
// for 0.2 ms, then sleeps.
int await_word(Word* word, unsigned seen, int64_t until);

// The first part of that: look for 0.2 ms, or until the clock stands there.
int look_for_word(Word* word, unsigned seen, int64_t until);

// The second one: sleep.
int sleep_for_word(Word* word, unsigned seen, int64_t until);

// Wait until nobody counts here any more, which is soon: nothing is told of it.
void await_nobody(atomic_int* count);
