// Products of bfloat16: what bfloats.c and tiles.c share.
#pragma once

#include "calls.h"

// A matrix in memory: its elements, and strides in bytes, one of which is the size of an element.
typedef struct {
    const char* data;
    int64_t row, column;
} Source;

// Whether this machine has tiles, and this process may use them.
int has_tiles(void);

// Multiply rows x columns of C over a part of K by tiles, and add the product to `total`; at the beginning of K,
// store it there instead. `memory` has 2 TEMPORARY_ELEMENTS floats. Returns 0, with `total` unchanged, for shapes
// and elements that tiles do not suit.
int multiply_by_tiles(
    Source a, Source b, int64_t rows, int64_t columns, int64_t depth, float* total, int begins, float* memory);
