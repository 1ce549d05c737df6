// Copies of matrices in host memory by several threads.
//
// Source and target may have any strides. Rows with adjacent elements on both sides are copied by
// memcpy. Other layouts are copied element by element, in squares small enough that both sides stay in
// the L1 cache.
//
// The caller and threads of the pool share a copy, if it has chunks enough. Each thread wakes some others,
// because a wake-up takes the waker some microseconds.
#include "copies.h"

#include "../../../native/streaming.h"

#include <string.h>

// PART_BYTES is a macro from native/tuned.py.
enum {
    LINE_BYTES = 64,  // of the caches
    CHUNKS = 4,  // least for each thread: copying them takes as long as waking a thread; chosen
};

typedef struct {
    Task task;  // first, because helpers get its address
    Pool* pool;
    char* target;
    const char* source;
    int64_t rows, columns;
    int64_t target_row, target_column;  // bytes from one element to the next
    int64_t source_row, source_column;
    int64_t item;  // bytes of an element
    int streams;  // whether stores bypass the caches
    int64_t chunk_rows, chunk_columns, chunks_across;
    int64_t chunks;
    _Atomic int64_t next;
} Copy;

// A memcpy of constant size is one unaligned move.
#define COPY_SQUARE(bytes)                                                      \
    for (int64_t i = 0; i < rows; ++i)                                          \
        for (int64_t j = 0; j < columns; ++j)                                   \
            memcpy(target + i * copy->target_row + j * copy->target_column,     \
                   source + i * copy->source_row + j * copy->source_column, bytes)

static void copy_square(const Copy* copy, char* target, const char* source, int64_t rows, int64_t columns)
{
    switch (copy->item) {
        case 1: COPY_SQUARE(1); break;
        case 2: COPY_SQUARE(2); break;
        case 4: COPY_SQUARE(4); break;
        case 8: COPY_SQUARE(8); break;
        default: COPY_SQUARE(16); break;
    }
}

static void copy_plain(char* target, const char* source, int64_t bytes) { memcpy(target, source, bytes); }

// Elements of a square each way: a cache line.
static int64_t find_side(const Copy* copy) { return LINE_BYTES / copy->item; }

static void copy_chunk(const Copy* copy, int64_t chunk)
{
    const int64_t top = chunk / copy->chunks_across * copy->chunk_rows;
    const int64_t left = chunk % copy->chunks_across * copy->chunk_columns;
    const int64_t rows = least(copy->chunk_rows, copy->rows - top);
    const int64_t columns = least(copy->chunk_columns, copy->columns - left);
    char* target = copy->target + top * copy->target_row + left * copy->target_column;
    const char* source = copy->source + top * copy->source_row + left * copy->source_column;
    if (copy->target_column == copy->item && copy->source_column == copy->item) {
        void (*copy_row)(char*, const char*, int64_t) = copy->streams ? stream_row : copy_plain;
        for (int64_t i = 0; i < rows; ++i) {
            copy_row(target + i * copy->target_row, source + i * copy->source_row, columns * copy->item);
        }
        if (copy->streams) finish_streaming();
        return;
    }
    const int64_t side = find_side(copy);
    for (int64_t i = 0; i < rows; i += side) {
        for (int64_t j = 0; j < columns; j += side) {
            copy_square(
                copy, target + i * copy->target_row + j * copy->target_column,
                source + i * copy->source_row + j * copy->source_column, least(side, rows - i),
                least(side, columns - j));
        }
    }
}

static void take_parts(Copy* copy)
{
    const Moment begin = read_moment();
    for (;;) {
        const int64_t chunk = atomic_fetch_add(&copy->next, 1);
        if (chunk >= copy->chunks) break;
        copy_chunk(copy, chunk);
    }
    note_since(begin);
}

// Run by each pool thread that joins.
static void help_copy(Task* task)
{
    Copy* const copy = (Copy*)task;
    call_others(copy->pool, task, WOKEN);
    take_parts(copy);
}

static void swap(int64_t* a, int64_t* b)
{
    const int64_t old = *a;
    *a = *b;
    *b = old;
}

// Cut a copy into chunks: whole rows, or parts of rows longer than a chunk. If both sides are
// column-major, they are copied as their transposes.
static void cut(Copy* copy)
{
    if (copy->target_row == copy->item && copy->source_row == copy->item) {
        swap(&copy->rows, &copy->columns);
        swap(&copy->target_row, &copy->target_column);
        swap(&copy->source_row, &copy->source_column);
    }
    const int64_t chunk_items = PART_BYTES / copy->item;
    const int plain = copy->target_column == copy->item && copy->source_column == copy->item;
    if (plain && copy->target_row == copy->columns * copy->item && copy->source_row == copy->target_row) {
        copy->columns *= copy->rows;
        copy->rows = 1;
    }
    // Between a row-major and another layout chunks are about square.
    int64_t height = plain ? 1 : find_side(copy);
    while (!plain && 4 * height * height <= chunk_items) height *= 2;
    height = least(copy->rows, height);
    copy->chunk_columns = least(copy->columns, chunk_items / height);
    copy->chunk_rows = least(copy->rows, chunk_items / copy->chunk_columns);
    copy->chunks_across = divide_up(copy->columns, copy->chunk_columns);
    copy->chunks = copy->chunks_across * divide_up(copy->rows, copy->chunk_rows);
    atomic_init(&copy->next, 0);
}

// Make a copy with the help of the pool. On a crowded machine the caller copies alone: it might wait milliseconds
// for a helper that has lost its core. A thread alone is slower than a link, and copies faster through the caches.
static void share(Pool* pool, int helpers, Copy* copy)
{
    if (copy->rows == 0 || copy->columns == 0) return;
    cut(copy);
    copy->pool = pool;
    copy->task.help = help_copy;
    const int useful = is_crowded() ? 0 : least(helpers, copy->chunks / CHUNKS - 1);
    atomic_init(&copy->task.places, useful);
    const int shared = useful > 0;
    copy->streams = copy->streams && shared;
    if (shared) {
        offer_task(pool, &copy->task);
        call_helpers(pool, &copy->task, WOKEN);
    }
    take_parts(copy);
    if (shared) withdraw_task(&copy->task);
}

void copy_matrix(
    Pool* pool, int helpers, char* target, int64_t target_row, int64_t target_column, const char* source,
    int64_t source_row, int64_t source_column, int64_t rows, int64_t columns, int64_t item)
{
    Copy copy = {
        .target = target, .source = source, .rows = rows, .columns = columns,
        .target_row = target_row, .target_column = target_column,
        .source_row = source_row, .source_column = source_column, .item = item,
    };
    share(pool, helpers, &copy);
}

void stream_matrix(
    Pool* pool, int helpers, char* target, int64_t target_row, const char* source, int64_t source_row,
    int64_t source_column, int64_t rows, int64_t columns, int64_t item)
{
    Copy copy = {
        .target = target, .source = source, .rows = rows, .columns = columns,
        .target_row = target_row, .target_column = item,
        .source_row = source_row, .source_column = source_column, .item = item, .streams = 1,
    };
    share(pool, helpers, &copy);
}
