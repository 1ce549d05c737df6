// Copies of matrices in host memory (copies.c), and what its neighbours share with it.
#pragma once

#include "../../../native/pool.h"

#include <stdint.h>

enum { PAUSES = 32 };  // of who waits for the device, between two looks

// Copy with at most so many of the pool's threads, and return when all is there. Strides are in bytes;
// items have 1, 2, 4 or 8 bytes. Any thread may call it.
EXPORTED void copy_matrix(
    Pool* pool, int helpers, char* target, int64_t target_row, int64_t target_column, const char* source,
    int64_t source_row, int64_t source_column, int64_t rows, int64_t columns, int64_t item);

// The same into rows that a device reads next, and no core.
void stream_matrix(
    Pool* pool, int helpers, char* target, int64_t target_row, const char* source, int64_t source_row,
    int64_t source_column, int64_t rows, int64_t columns, int64_t item);

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
