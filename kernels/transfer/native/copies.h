// Copies of matrices in host memory (copies.c), and what the other sources here share.
#pragma once

#include "../../../native/pool.h"

#include <stdint.h>

// Copy a matrix with at most `helpers` threads of the pool, and wait for the end. Strides are in bytes;
// items have 1, 2, 4, 8 or 16 bytes. Thread-safe.
EXPORTED void copy_matrix(
    Pool* pool, int helpers, char* target, int64_t target_row, int64_t target_column, const char* source,
    int64_t source_row, int64_t source_column, int64_t rows, int64_t columns, int64_t item);

// The same with adjacent target elements, past the caches: for a target that a device reads next. From caches it
// reads at half the rate (H200: 28 of 52 GB/s).
EXPORTED void stream_matrix(
    Pool* pool, int helpers, char* target, int64_t target_row, const char* source, int64_t source_row,
    int64_t source_column, int64_t rows, int64_t columns, int64_t item);

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
