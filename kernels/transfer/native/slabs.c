#include "slabs.h"

#include "driver.h"

#include <limits.h>
#include <stdlib.h>

enum { LINE_BYTES = 128 };  // of the device's caches

// The part of a matrix that is copied at a time, in rows and columns.
typedef struct {
    int64_t top, left, rows, columns;
} Piece;

// A piece has whole rows if at least one fits. Rows with little padding on the device have it in the slab as
// well, so that a piece is one contiguous transfer. What is no padding holds something else, and is skipped.
void cut_matrix(MatrixCopy* copy, int64_t piece_bytes)
{
    const int64_t row_bytes = copy->columns * copy->item;
    copy->pitch = copy->padding < LINE_BYTES ? row_bytes + copy->padding : row_bytes;
    copy->piece_columns = copy->columns;
    copy->piece_rows = piece_bytes / copy->pitch;
    if (copy->piece_rows == 0) {
        copy->piece_columns = piece_bytes / LINE_BYTES * LINE_BYTES / copy->item;
        copy->pitch = copy->piece_columns * copy->item;
        copy->piece_rows = 1;
    }
    copy->piece_rows = least(copy->piece_rows, copy->rows);
    copy->pieces_across = divide_up(copy->columns, copy->piece_columns);
    copy->pieces = copy->pieces_across * divide_up(copy->rows, copy->piece_rows);
}

static Piece find_piece(const MatrixCopy* copy, int64_t index)
{
    const int64_t top = index / copy->pieces_across * copy->piece_rows;
    const int64_t left = index % copy->pieces_across * copy->piece_columns;
    const Piece piece = {
        top, left, least(copy->piece_rows, copy->rows - top), least(copy->piece_columns, copy->columns - left),
    };
    return piece;
}

// Wait until a slab has no transfer under way.
static int reclaim(Slab* slab)
{
    const int status = slab->busy ? await_event(slab->end) : 0;
    if (status == 0) slab->busy = 0;
    return status;
}

static int transfer_rows(Slabs* slabs, Slab* slab, const MatrixCopy* copy, const Piece* piece, int inwards)
{
    const unsigned long long device = copy->device + piece->top * copy->device_pitch + piece->left * copy->item;
    const size_t row_bytes = piece->columns * copy->item;
    if (piece->rows == 1 || copy->pitch == copy->device_pitch) {
        const size_t size = (piece->rows - 1) * copy->pitch + row_bytes;
        return inwards ? driver.copy_in(device, slab->memory, size, slabs->stream)
                       : driver.copy_out(slab->memory, device, size, slabs->stream);
    }
    const Copy2D rows = {
        .source_kind = inwards ? ON_HOST : ON_DEVICE,
        .source_host = slab->memory,
        .source_device = device,
        .source_pitch = inwards ? copy->pitch : copy->device_pitch,
        .target_kind = inwards ? ON_DEVICE : ON_HOST,
        .target_host = slab->memory,
        .target_device = device,
        .target_pitch = inwards ? copy->device_pitch : copy->pitch,
        .row_bytes = row_bytes,
        .rows = piece->rows,
    };
    return copy_rows(&rows, slabs->stream);
}

static int transfer(Slabs* slabs, Slab* slab, const MatrixCopy* copy, const Piece* piece, int inwards)
{
    const int status = transfer_rows(slabs, slab, copy, piece, inwards);
    if (status != 0) return status;
    slab->busy = 1;
    return driver.record_event(slab->end, slabs->stream);
}

static void copy_piece(Slabs* slabs, Slab* slab, const MatrixCopy* copy, const Piece* piece, int inwards)
{
    char* host = copy->host + piece->top * copy->host_row + piece->left * copy->host_column;
    const int helpers = atomic_load(&slabs->helpers);
    if (inwards && copy->streams) {
        stream_matrix(
            slabs->pool, helpers, slab->memory, copy->pitch, host, copy->host_row, copy->host_column, piece->rows,
            piece->columns, copy->item);
    } else if (inwards) {
        copy_matrix(
            slabs->pool, helpers, slab->memory, copy->pitch, copy->item, host, copy->host_row, copy->host_column,
            piece->rows, piece->columns, copy->item);
    } else {
        copy_matrix(
            slabs->pool, helpers, host, copy->host_row, copy->host_column, slab->memory, copy->pitch, copy->item,
            piece->rows, piece->columns, copy->item);
    }
}

int send_matrix(Slabs* slabs, MatrixCopy* copy)
{
    for (; copy->begun < copy->pieces; ++copy->begun) {
        if (atomic_load(&slabs->stopping)) return STOPPED;
        const Piece piece = find_piece(copy, copy->begun);
        Slab* slab = &slabs->slab[slabs->begun % slabs->count];
        slabs->emptied = ++slabs->begun;
        int status = reclaim(slab);
        if (status != 0) return status;
        copy_piece(slabs, slab, copy, &piece, 1);
        status = transfer(slabs, slab, copy, &piece, 1);
        if (status != 0) return status;
    }
    return 0;
}

int begin_fetching(Slabs* slabs, MatrixCopy* copy)
{
    while (copy->begun < copy->pieces && slabs->begun - slabs->emptied < slabs->count) {
        if (atomic_load(&slabs->stopping)) return STOPPED;
        const Piece piece = find_piece(copy, copy->begun);
        Slab* slab = &slabs->slab[slabs->begun % slabs->count];
        int status = reclaim(slab);
        if (status == 0) status = transfer(slabs, slab, copy, &piece, 0);
        if (status != 0) return status;
        ++slabs->begun;
        ++copy->begun;
    }
    return 0;
}

int fetch_piece(Slabs* slabs, MatrixCopy* copy)
{
    const Piece piece = find_piece(copy, copy->fetched);
    Slab* slab = &slabs->slab[slabs->emptied % slabs->count];
    const int status = reclaim(slab);
    if (status != 0) return status;
    copy_piece(slabs, slab, copy, &piece, 0);
    ++slabs->emptied;
    ++copy->fetched;
    return 0;
}

void drop_pieces(Slabs* slabs, MatrixCopy* copy)
{
    slabs->emptied += copy->begun - copy->fetched;
    copy->fetched = copy->begun;
}

int await_slabs(Slabs* slabs)
{
    int status = 0;
    for (int i = 0; i < slabs->count; ++i) {
        const int one = reclaim(&slabs->slab[i]);
        if (status == 0) status = one;
    }
    return status;
}

Slabs* open_slabs(Pool* pool, void* stream, void* const* memories, int count, int64_t slab_bytes)
{
    Slabs* slabs = calloc(1, sizeof(Slabs) + count * sizeof(Slab));
    if (slabs == NULL) return NULL;
    slabs->pool = pool;
    slabs->stream = stream;
    slabs->slab_bytes = slab_bytes;
    slabs->count = count;
    atomic_init(&slabs->helpers, INT_MAX);
    for (int i = 0; i < count; ++i) {
        slabs->slab[i].memory = memories[i];
        if (driver.create_event(&slabs->slab[i].end, UNTIMED) != 0) {
            close_slabs(slabs);
            return NULL;
        }
    }
    return slabs;
}

void close_slabs(Slabs* slabs)
{
    for (int i = 0; i < slabs->count; ++i) {
        if (slabs->slab[i].end != NULL) driver.destroy_event(slabs->slab[i].end);
    }
    free(slabs);
}
