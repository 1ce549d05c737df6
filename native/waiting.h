// Words that threads wait for: who changes one wakes some of those that sleep for it.
#pragma once

#include "spinning.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>

enum { EVERYONE = INT_MAX };

#define NEVER INT64_MAX

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
