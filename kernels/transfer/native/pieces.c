#include "pieces.h"

#include "driver.h"

#include <stdlib.h>
#include <string.h>

enum {
    CACHE_LINE_BYTES = 64,  // of the host
    LINE_BYTES = 128,  // of the device's caches
    PIECES = 24,       // wanted of a matrix: two for each thread; chosen
    LEAST_PIECE_BYTES = 256 << 10,  // of a smaller piece, enqueueing takes as long as the copy; chosen
    MOST_MEMCPY_BYTES = 128 << 10,  // a longer memcpy is up to a tenth slower (EPYC); chosen
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

// One side of a copy within host memory: the first element, and the bytes from one to the next.
typedef struct {
    char* first;
    int64_t row, column;
} Side;

// A memcpy of constant size is one unaligned move.
#define COPY_SQUARE(bytes)                                                          \
    for (int64_t i = 0; i < rows; ++i)                                              \
        for (int64_t j = 0; j < columns; ++j)                                       \
            memcpy(to.first + i * to.row + j * to.column, from.first + i * from.row + j * from.column, bytes)

static void copy_square(Side to, Side from, int64_t rows, int64_t columns, int64_t item)
{
    switch (item) {
        case 1: COPY_SQUARE(1); break;
        case 2: COPY_SQUARE(2); break;
        case 4: COPY_SQUARE(4); break;
        case 8: COPY_SQUARE(8); break;
        default: COPY_SQUARE(16); break;
    }
}

static Side skip(Side side, int64_t rows, int64_t columns)
{
    return (Side){side.first + rows * side.row + columns * side.column, side.row, side.column};
}

static void copy_bytes(char* to, const char* from, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += MOST_MEMCPY_BYTES) {
        memcpy(to + at, from + at, least(bytes - at, MOST_MEMCPY_BYTES));
    }
}

// Rows with adjacent elements on both sides are copied by memcpy; other layouts element by element, in squares so
// small that both sides stay in the L1 cache, along the columns if one side is column-major.
static void copy_elements(Side to, Side from, int64_t rows, int64_t columns, int64_t item)
{
    const int64_t row_bytes = columns * item;
    if (to.column == item && from.column == item) {
        const int is_whole = to.row == row_bytes && from.row == row_bytes;
        if (is_whole) copy_bytes(to.first, from.first, rows * row_bytes);
        for (int64_t i = 0; i < rows && !is_whole; ++i) {
            copy_bytes(to.first + i * to.row, from.first + i * from.row, row_bytes);
        }
        return;
    }
    const int64_t side = CACHE_LINE_BYTES / item;
    const int64_t down = divide_up(rows, side), across = divide_up(columns, side);
    const int by_columns = llabs(to.row) < llabs(to.column) || llabs(from.row) < llabs(from.column);
    for (int64_t square = 0; square < down * across; ++square) {
        const int64_t i = side * (by_columns ? square % down : square / across);
        const int64_t j = side * (by_columns ? square / down : square % across);
        copy_square(skip(to, i, j), skip(from, i, j), least(side, rows - i), least(side, columns - j), item);
    }
}

void copy_piece(const MatrixCopy* copy, int64_t index, char* slab)
{
    const Piece piece = find_piece(copy, index);
    const Side whole = {copy->host, copy->host_row, copy->host_column};
    const Side host = skip(whole, piece.top, piece.left);
    const Side in_slab = {slab, copy->pitch, copy->item};
    if (copy->inwards) {
        copy_elements(in_slab, host, piece.rows, piece.columns, copy->item);
    } else {
        copy_elements(host, in_slab, piece.rows, piece.columns, copy->item);
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
    return copy_host_rows(slab, copy->pitch, device, copy->device_pitch, row_bytes, piece.rows, inwards, stream);
}
