// One block of a C too large for any cache, with a short K: memory bounds it. BLAS would write and read C twice,
// because it clears C first. So BLAS computes a piece at a time in memory that stays in the core's cache, and stores
// that bypass the caches write it to C, once.
#include "calls.h"

#include "../../native/streaming.h"

// STREAMED_ROW_BYTES is a macro from native/tuned.py. The others were chosen.
enum {
    LEAST_TIMES = 4,  // least size of C over those of A and of B, which must be read in any case
    MOST_CACHE_BYTES = 128 << 20,  // of a cache that counts as this machine's own; others share a larger one
    LINE_BYTES = 64,  // of the caches
    STRETCH_BYTES = 4096,  // of a line of C in a piece of many lines
};

int is_streamed(const Blas* blas, const Product* product, int64_t rows)
{
    const int64_t n = product->n, k = product->k, item = product->item;
    const int is_short = k * item <= STREAMED_ROW_BYTES && LEAST_TIMES * k <= least(rows, n);
    return STREAMS && product->beta == 0 && is_short && blas->cache_bytes > 0
        && rows * n * item > least(blas->cache_bytes, MOST_CACHE_BYTES);
}

// Copy a piece to C line by line, a row or a column in C's order; `step` is the bytes from line to line in C.
static void stream_piece(char* c, int64_t step, const char* piece, int64_t lines, int64_t line_bytes)
{
    if (step == line_bytes) {
        line_bytes *= lines;
        lines = 1;
    }
    for (int64_t i = 0; i < lines; ++i) stream_row(c + i * step, piece + i * line_bytes, line_bytes);
}

// Elements of a line in a piece. A line is cut into the fewest parts that fit pieces, of nearly equal length and whole
// cache lines.
static int64_t find_stretch(int64_t lines, int64_t length, int64_t item)
{
    const int64_t few = PIECE_BYTES / 2 / lines, most = few > STRETCH_BYTES ? few : STRETCH_BYTES;
    const int64_t parts = divide_up(length * item, most), unit = LINE_BYTES / item;
    return least(length, divide_up(divide_up(length, parts), unit) * unit);
}

void multiply_streamed(const Blas* blas, const Product* product, const Block* block, char* memory)
{
    const int64_t item = product->item, by_rows = product->c_column == item;
    const int64_t rows = block->row_stop - block->row_start, columns = block->column_stop - block->column_start;
    // In elements: the whole block, and a piece, across the lines of C and along them.
    const int64_t lines = by_rows ? rows : columns, length = by_rows ? columns : rows;
    const int64_t stretch = find_stretch(lines, length, item), most_lines = PIECE_BYTES / (stretch * item);
    const int64_t step = by_rows ? product->c_row : product->c_column;
    for (int64_t line = 0; line < lines; line += most_lines) {
        const int64_t some = least(most_lines, lines - line);
        for (int64_t first = 0; first < length; first += stretch) {
            const int64_t along = least(stretch, length - first);
            const int64_t top = block->row_start + (by_rows ? line : first);
            const int64_t left = block->column_start + (by_rows ? first : line);
            Product part = *product;
            part.a += top * product->a_row;
            part.b += left * product->b_column;
            part.c = memory;
            part.c_row = by_rows ? along * item : item;
            part.c_column = by_rows ? item : along * item;
            const Block whole = {
                .row_stop = by_rows ? some : along, .column_stop = by_rows ? along : some, .depth_stop = product->k,
            };
            multiply_block(blas, &part, &whole, NULL, NULL);
            char* const c = product->c + top * product->c_row + left * product->c_column;
            stream_piece(c, step, memory, some, along * item);
        }
    }
    finish_streaming();
}
