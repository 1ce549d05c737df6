#include "pieces.h"

#include "driver.h"

enum {
    LINE_BYTES = 128,  // of the device's caches
    PIECES = 24,       // wanted of a matrix: two for each thread; chosen
    LEAST_PIECE_BYTES = 256 << 10,  // of a smaller piece, enqueueing takes as long as the copy; chosen
};

typedef struct {
    int64_t top, left, rows, columns;
} Piece;

// A piece has whole rows if at least one fits. If rows have little padding on the device, they have it in the slab,
// too, so that a piece is one contiguous transfer. Other bytes between rows are another matrix's, and are skipped.
void cut_matrix(MatrixCopy* copy, int64_t slab_bytes)
{
    const int64_t row_bytes = copy->columns * copy->item;
    copy->pitch = copy->padding < LINE_BYTES ? row_bytes + copy->padding : row_bytes;
    const int64_t share = divide_up(copy->rows * copy->pitch, PIECES);
    const int64_t piece_bytes = least(share > LEAST_PIECE_BYTES ? share : LEAST_PIECE_BYTES, slab_bytes);
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

void copy_piece(const MatrixCopy* copy, int64_t index, char* slab)
{
    const Piece piece = find_piece(copy, index);
    char* const host = copy->host + piece.top * copy->host_row + piece.left * copy->host_column;
    if (copy->inwards && copy->streams) {
        stream_matrix(
            NULL, 0, slab, copy->pitch, host, copy->host_row, copy->host_column, piece.rows, piece.columns,
            copy->item);
    } else if (copy->inwards) {
        copy_matrix(
            NULL, 0, slab, copy->pitch, copy->item, host, copy->host_row, copy->host_column, piece.rows,
            piece.columns, copy->item);
    } else {
        copy_matrix(
            NULL, 0, host, copy->host_row, copy->host_column, slab, copy->pitch, copy->item, piece.rows,
            piece.columns, copy->item);
    }
}

int transfer_piece(const MatrixCopy* copy, int64_t index, char* slab, void* stream)
{
    const Piece piece = find_piece(copy, index);
    const int inwards = copy->inwards;
    const unsigned long long device = copy->device + piece.top * copy->device_pitch + piece.left * copy->item;
    const size_t row_bytes = piece.columns * copy->item;
    if (piece.rows == 1 || copy->pitch == copy->device_pitch) {
        const size_t size = (piece.rows - 1) * copy->pitch + row_bytes;
        return inwards ? driver.copy_in(device, slab, size, stream) : driver.copy_out(slab, device, size, stream);
    }
    const Copy2D rows = {
        .source_kind = inwards ? ON_HOST : ON_DEVICE,
        .source_host = slab,
        .source_device = device,
        .source_pitch = inwards ? copy->pitch : copy->device_pitch,
        .target_kind = inwards ? ON_DEVICE : ON_HOST,
        .target_host = slab,
        .target_device = device,
        .target_pitch = inwards ? copy->device_pitch : copy->pitch,
        .row_bytes = row_bytes,
        .rows = piece.rows,
    };
    return copy_rows(&rows, stream);
}
