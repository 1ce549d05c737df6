#include "ways.h"

#include "driver.h"

#include <limits.h>
#include <stdlib.h>

enum { LINE_BYTES = 128 };

// The part of a matrix that is copied at once: in rows and columns.
typedef struct {
    int64_t top, left, rows, columns;
} Piece;

// Whole rows in a piece where one fits. Rows that are padded on the device are so in the slab:
// then a piece is one plain transfer.
void cut_way(Way* way, int64_t piece_bytes)
{
    const int64_t row_bytes = way->columns * way->item;
    way->pitch = way->device_pitch - row_bytes < LINE_BYTES ? way->device_pitch : row_bytes;
    way->piece_columns = way->columns;
    way->piece_rows = piece_bytes / way->pitch;
    if (way->piece_rows == 0) {
        way->piece_columns = piece_bytes / LINE_BYTES * LINE_BYTES / way->item;
        way->pitch = way->piece_columns * way->item;
        way->piece_rows = 1;
    }
    way->piece_rows = least(way->piece_rows, way->rows);
    way->pieces_across = divide_up(way->columns, way->piece_columns);
    way->pieces = way->pieces_across * divide_up(way->rows, way->piece_rows);
}

static Piece find_piece(const Way* way, int64_t index)
{
    const int64_t top = index / way->pieces_across * way->piece_rows;
    const int64_t left = index % way->pieces_across * way->piece_columns;
    const Piece piece = {
        top, left, least(way->piece_rows, way->rows - top), least(way->piece_columns, way->columns - left),
    };
    return piece;
}

// Wait until the device has done with a slab.
static int reclaim(Slab* slab)
{
    const int status = slab->busy ? await_event(slab->end) : 0;
    if (status == 0) slab->busy = 0;
    return status;
}

static int transfer_rows(Slabs* slabs, Slab* slab, const Way* way, const Piece* piece, int inwards)
{
    const unsigned long long device = way->device + piece->top * way->device_pitch + piece->left * way->item;
    const size_t row_bytes = piece->columns * way->item;
    if (piece->rows == 1 || way->pitch == way->device_pitch) {
        const size_t size = (piece->rows - 1) * way->pitch + row_bytes;
        return inwards ? driver.copy_in(device, slab->memory, size, slabs->stream)
                       : driver.copy_out(slab->memory, device, size, slabs->stream);
    }
    const Copy2D rows = {
        .source_kind = inwards ? ON_HOST : ON_DEVICE,
        .source_host = slab->memory,
        .source_device = device,
        .source_pitch = inwards ? way->pitch : way->device_pitch,
        .target_kind = inwards ? ON_DEVICE : ON_HOST,
        .target_host = slab->memory,
        .target_device = device,
        .target_pitch = inwards ? way->device_pitch : way->pitch,
        .row_bytes = row_bytes,
        .rows = piece->rows,
    };
    return driver.copy_rows(&rows, slabs->stream);
}

static int transfer(Slabs* slabs, Slab* slab, const Way* way, const Piece* piece, int inwards)
{
    const int status = transfer_rows(slabs, slab, way, piece, inwards);
    if (status != 0) return status;
    slab->busy = 1;
    return driver.record_event(slab->end, slabs->stream);
}

static void copy_piece(Slabs* slabs, Slab* slab, const Way* way, const Piece* piece, int inwards)
{
    char* host = way->host + piece->top * way->host_row + piece->left * way->host_column;
    const int helpers = atomic_load(&slabs->helpers);
    if (inwards) {
        stream_matrix(
            slabs->pool, helpers, slab->memory, way->pitch, host, way->host_row, way->host_column, piece->rows,
            piece->columns, way->item);
    } else {
        copy_matrix(
            slabs->pool, helpers, host, way->host_row, way->host_column, slab->memory, way->pitch, way->item,
            piece->rows, piece->columns, way->item);
    }
}

int send_matrix(Slabs* slabs, Way* way)
{
    for (; way->begun < way->pieces; ++way->begun) {
        if (atomic_load(&slabs->stopping)) return STOPPED;
        const Piece piece = find_piece(way, way->begun);
        Slab* slab = &slabs->slab[slabs->begun % slabs->count];
        slabs->emptied = ++slabs->begun;
        int status = reclaim(slab);
        if (status != 0) return status;
        copy_piece(slabs, slab, way, &piece, 1);
        status = transfer(slabs, slab, way, &piece, 1);
        if (status != 0) return status;
    }
    return 0;
}

int begin_fetching(Slabs* slabs, Way* way)
{
    while (way->begun < way->pieces && slabs->begun - slabs->emptied < slabs->count) {
        if (atomic_load(&slabs->stopping)) return STOPPED;
        const Piece piece = find_piece(way, way->begun);
        Slab* slab = &slabs->slab[slabs->begun % slabs->count];
        int status = reclaim(slab);
        if (status == 0) status = transfer(slabs, slab, way, &piece, 0);
        if (status != 0) return status;
        ++slabs->begun;
        ++way->begun;
    }
    return 0;
}

int fetch_piece(Slabs* slabs, Way* way)
{
    const Piece piece = find_piece(way, way->fetched);
    Slab* slab = &slabs->slab[slabs->emptied % slabs->count];
    const int status = reclaim(slab);
    if (status != 0) return status;
    copy_piece(slabs, slab, way, &piece, 0);
    ++slabs->emptied;
    ++way->fetched;
    return 0;
}

void drop_pieces(Slabs* slabs, Way* way)
{
    slabs->emptied += way->begun - way->fetched;
    way->fetched = way->begun;
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
