// One block of a C that no cache holds, with a short K. Memory bounds it, and BLAS would move each element of C four
// times: it clears C, reads it, adds and writes, and a store reads its line first. So BLAS computes a piece in the
// thread's own memory, which stays in its core's cache, and stores that bypass the caches bring it to C.
#include "calls.h"

#if defined(__SSE2__)

#include <emmintrin.h>
#include <string.h>

enum {
    PIECE_BYTES = 1 << 18,  // fits into a core's own cache; chosen
    STRETCH_BYTES = 4096,  // of a row of C in a piece; chosen
    LINE_BYTES = 64,  // of the caches
    VECTORS = LINE_BYTES / sizeof(__m128i),
};

_Static_assert(PIECE_BYTES <= MEMORY_FLOATS * sizeof(float), "a piece is larger than a thread's memory");

// Whole lines bypass the caches; a part of one would have to be merged with memory.
static void stream_row(char* target, const char* source, int64_t bytes)
{
    const int64_t before = least(bytes, -(uintptr_t)target % LINE_BYTES);
    memcpy(target, source, before);
    int64_t i = before;
    for (; i + LINE_BYTES <= bytes; i += LINE_BYTES) {
        for (unsigned j = 0; j < VECTORS; ++j) {
            _mm_stream_si128((__m128i*)(target + i) + j, _mm_loadu_si128((const __m128i*)(source + i) + j));
        }
    }
    memcpy(target + i, source + i, bytes - i);
}

int multiply_streamed(const Blas* blas, const Product* product, const Block* block, char* memory)
{
    const int64_t item = product->item, columns = block->column_stop - block->column_start;
    const int64_t stretch = least(columns, STRETCH_BYTES / item), most_rows = PIECE_BYTES / (stretch * item);
    for (int64_t top = block->row_start; top < block->row_stop; top += most_rows) {
        for (int64_t left = block->column_start; left < block->column_stop; left += stretch) {
            const int64_t rows = least(most_rows, block->row_stop - top);
            const int64_t width = least(stretch, block->column_stop - left), row_bytes = width * item;
            Product piece = *product;
            piece.is_streamed = 0;
            piece.a += top * product->a_row;
            piece.b += left * product->b_column;
            piece.c = memory;
            piece.c_row = row_bytes;
            const Block whole = {.row_stop = rows, .column_stop = width, .depth_stop = product->k};
            multiply_block(blas, &piece, &whole, NULL, NULL);
            char* const c = product->c + top * product->c_row + left * item;
            for (int64_t i = 0; i < rows; ++i) stream_row(c + i * product->c_row, memory + i * row_bytes, row_bytes);
        }
    }
    _mm_sfence();  // before the block is announced
    return 1;
}

#else

int multiply_streamed(const Blas* blas, const Product* product, const Block* block, char* memory)
{
    (void)blas, (void)product, (void)block, (void)memory;
    return 0;
}

#endif
