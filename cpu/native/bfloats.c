// One block of a product of bfloat16. A part of K at a time is multiplied and summed in single precision: by
// tiles (tiles.c) if they are faster, else by BLAS, once it is widened. Results are rounded once, to even.
#include "bfloats.h"

#include <stdlib.h>
#include <string.h>

// TEMPORARY_ELEMENTS is a macro from native/tuned.py.
enum { LANES = 8 };  // of a vector

typedef uint16_t Bfloats __attribute__((vector_size(16)));
typedef uint32_t Bits __attribute__((vector_size(32)));

static float widen(uint16_t bfloat)
{
    const uint32_t bits = (uint32_t)bfloat << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

static uint16_t narrow(float wide)
{
    uint32_t bits;
    memcpy(&bits, &wide, sizeof bits);
    if (wide != wide) return (uint16_t)(bits >> 16 | 0x40);  // NaN
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void widen_line(float* wide, const char* line, int64_t length)
{
    int64_t i = 0;
    for (; i + LANES <= length; i += LANES) {
        Bfloats bfloats;
        memcpy(&bfloats, line + i * sizeof(uint16_t), sizeof bfloats);
        const Bits bits = __builtin_convertvector(bfloats, Bits) << 16;
        memcpy(wide + i, &bits, sizeof bits);
    }
    for (; i < length; ++i) {
        uint16_t bfloat;
        memcpy(&bfloat, line + i * sizeof bfloat, sizeof bfloat);
        wide[i] = widen(bfloat);
    }
}

// Widen a matrix without gaps, in its own order, by rows or by columns; `row` and `column` become its strides. A
// single row is always stored by rows: by columns both strides would be one element, too little for BLAS.
static void widen_matrix(Source source, int64_t rows, int64_t columns, float* wide, int64_t* row, int64_t* column)
{
    const int by_rows = source.column == sizeof(uint16_t);
    const int64_t lines = by_rows ? rows : columns, length = by_rows ? columns : rows;
    const int64_t step = by_rows ? source.row : source.column;
    for (int64_t i = 0; i < lines; ++i) widen_line(wide + i * length, source.data + i * step, length);
    *row = (by_rows || rows == 1 ? columns : 1) * (int64_t)sizeof(float);
    *column = (by_rows || rows == 1 ? 1 : rows) * (int64_t)sizeof(float);
}

// Multiply rows x columns of C over a part of K, and add the product to `total`; at the beginning of K, store it
// there instead.
static void sum_part(
    const Blas* blas, Source a, Source b, int64_t rows, int64_t columns, int64_t depth, float* total, int begins)
{
    float* const wide_a = total + TEMPORARY_ELEMENTS;
    float* const wide_b = wide_a + TEMPORARY_ELEMENTS;
    if (blas->tiles && multiply_by_tiles(a, b, rows, columns, depth, total, begins, wide_a)) return;
    Product part = {
        .a = (const char*)wide_a, .b = (const char*)wide_b, .c = (char*)total,
        .c_row = columns * (int64_t)sizeof(float), .c_column = sizeof(float), .n = columns, .k = depth,
        .item = sizeof(float), .kind = 0, .alpha = 1, .beta = begins ? 0 : 1,
    };
    widen_matrix(a, rows, depth, wide_a, &part.a_row, &part.a_column);
    widen_matrix(b, depth, columns, wide_b, &part.b_row, &part.b_column);
    const Block whole = {.row_stop = rows, .column_stop = columns, .depth_stop = depth};
    multiply_block(blas, &part, &whole, NULL, NULL);
}

// C ← α·total + βC, for some rows and columns of C.
static void store(const Product* product, char* c, int64_t rows, int64_t columns, const float* total)
{
    const float alpha = (float)product->alpha, beta = (float)product->beta;
    for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
            char* const element = c + i * product->c_row + j * product->c_column;
            uint16_t bfloat;
            float value = alpha * *total++;
            if (beta != 0) {
                memcpy(&bfloat, element, sizeof bfloat);
                value += beta * widen(bfloat);
            }
            bfloat = narrow(value);
            memcpy(element, &bfloat, sizeof bfloat);
        }
    }
}

static void multiply_some(
    const Blas* blas, const Product* product, const Block* block, float* sum, float* total)
{
    const int64_t rows = block->row_stop - block->row_start, columns = block->column_stop - block->column_start;
    const int64_t longest = rows > columns ? rows : columns, step = TEMPORARY_ELEMENTS / longest;
    const int64_t top = block->row_start, left = block->column_start;
    for (int64_t first = block->depth_start; first < block->depth_stop; first += step) {
        const int64_t rest = block->depth_stop - first, depth = rest < step ? rest : step;
        const Source a = {
            product->a + top * product->a_row + first * product->a_column, product->a_row, product->a_column,
        };
        const Source b = {
            product->b + first * product->b_row + left * product->b_column, product->b_row, product->b_column,
        };
        sum_part(blas, a, b, rows, columns, depth, total, first == block->depth_start);
    }
    if (sum != NULL) {
        for (int64_t i = 0; i < rows; ++i) memcpy(sum + i * product->n, total + i * columns, columns * sizeof(float));
    } else {
        store(product, product->c + top * product->c_row + left * product->c_column, rows, columns, total);
    }
}

void multiply_bfloats(const Blas* blas, const Product* product, const Block* block, float* sum, float* memory)
{
    const int64_t n = block->column_stop - block->column_start;
    const int64_t width = n < TEMPORARY_ELEMENTS ? n : TEMPORARY_ELEMENTS, height = TEMPORARY_ELEMENTS / width;
    Block some = *block;
    for (int64_t row = block->row_start; row < block->row_stop; row += height) {
        some.row_start = row;
        some.row_stop = row + height < block->row_stop ? row + height : block->row_stop;
        for (int64_t column = block->column_start; column < block->column_stop; column += width) {
            some.column_start = column;
            some.column_stop = column + width < block->column_stop ? column + width : block->column_stop;
            float* const part = sum == NULL ? NULL : sum + (row - block->row_start) * n + column;
            multiply_some(blas, product, &some, part, memory);
        }
    }
}

enum { TRIED_SIDE = 256, TRIES = 3 };
_Static_assert(TRIED_SIDE * TRIED_SIDE <= TEMPORARY_ELEMENTS, "a part that is tried fits into the memory");

// Least nanoseconds, of several tries, for a part of TRIED_SIDE rows, columns and K.
static int64_t time_part(Blas blas, int tiles, const uint16_t* ones, float* memory)
{
    const Source source = {(const char*)ones, TRIED_SIDE * sizeof *ones, sizeof *ones};
    int64_t least = INT64_MAX;
    blas.tiles = tiles;
    for (int i = 0; i < TRIES; ++i) {
        const int64_t began = read_clock();
        sum_part(&blas, source, source, TRIED_SIDE, TRIED_SIDE, TRIED_SIDE, memory, 1);
        const int64_t taken = read_clock() - began;
        if (taken < least) least = taken;
    }
    return least;
}

int prefers_tiles(const Blas* blas)
{
    if (!has_tiles()) return 0;
    float* memory = malloc(MEMORY_FLOATS * sizeof *memory);
    uint16_t* ones = malloc(TRIED_SIDE * TRIED_SIDE * sizeof *ones);
    int faster = 0;
    if (memory != NULL && ones != NULL) {
        for (int i = 0; i < TRIED_SIDE * TRIED_SIDE; ++i) ones[i] = narrow(1);
        faster = time_part(*blas, 1, ones, memory) < time_part(*blas, 0, ones, memory);
    }
    free(ones);
    free(memory);
    return faster;
}
