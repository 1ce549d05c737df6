// Copies of matrices in host memory (copies.c), and what its neighbours share with it.
#pragma once

#include "../../native/spinning.h"

#include <stdint.h>

// What Python calls; all else stays inside the library.
#define EXPORTED __attribute__((visibility("default")))

enum { PAUSES = 32 };  // of who waits for the device, between two looks

typedef struct Team Team;

// A team of so many threads beside the callers; NULL if there is no memory, fewer if no more start.
EXPORTED Team* open_team(int threads);

// End the threads and free the team; no copy may be under way.
EXPORTED void close_team(Team* team);

// Have so many of the threads awake for a copy that follows soon.
EXPORTED void wake_team(Team* team, int helpers);

// Have so many of the threads look for copies from now on, and not for long where others compute on the
// same cores. Those beyond them that sleep already wake up for one more copy at most.
EXPORTED void limit_team(Team* team, int helpers, int shares_cores);

// Copy with at most so many of the team's threads, and return when all is there. Strides are in bytes;
// items have 1, 2, 4 or 8 bytes. Any thread may call it.
EXPORTED void copy_matrix(
    Team* team, int helpers, char* target, int64_t target_row, int64_t target_column, const char* source,
    int64_t source_row, int64_t source_column, int64_t rows, int64_t columns, int64_t item);

// The same into rows that a device reads next, and no core.
void stream_matrix(
    Team* team, int helpers, char* target, int64_t target_row, const char* source, int64_t source_row,
    int64_t source_column, int64_t rows, int64_t columns, int64_t item);

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
