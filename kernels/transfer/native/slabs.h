// The ways of matrices between the caller's memory and the device: piece by piece through slabs of
// pinned memory.
//
// Inwards threads of a pool fill a slab, and its transfer follows; the slab is used again when that is
// done. Outwards transfers run ahead as far as there are slabs, into the next matrices, too, and they
// empty one slab after the other as they arrive: else the link would idle behind each matrix while its
// last slab is emptied.
#pragma once

#include "copies.h"

#include <stdatomic.h>

enum { STOPPED = -2 };  // beside the results that are the driver's

typedef struct {
    char* memory;
    void* end;  // event behind its last transfer
    int busy;  // with that, for all that is known
} Slab;

// The slabs of one direction, and who copies and transfers. One thread at a time uses them, but for
// what is atomic.
typedef struct {
    Pool* pool;
    void* stream;
    int64_t slab_bytes;
    atomic_int helpers;  // at most so many of the pool's threads
    atomic_int stopping;
    int count;
    int64_t begun;  // slabs taken into use, from the first on, and those of them that are free again
    int64_t emptied;  // outwards
    Slab slab[];
} Slabs;

// A matrix, where it lies on the device, how it is cut, and how far it is.
typedef struct {
    char* host;
    int64_t host_row, host_column;  // bytes from one element to the next
    unsigned long long device;
    int64_t device_pitch;  // bytes
    int64_t rows, columns, item;
    int64_t piece_rows, piece_columns, pieces_across, pieces, pitch;  // cut_matrix says
    int64_t begun, fetched;  // pieces
} MatrixCopy;

// Slabs whose memory stays the caller's; NULL if there is no memory for them, or no context.
Slabs* open_slabs(Pool* pool, void* stream, void* const* memories, int count, int64_t slab_bytes);

// To be called in the same context; nothing may be under way.
void close_slabs(Slabs* slabs);

// Cut a matrix, which is not empty, into pieces of so many bytes, which is at most what a slab holds.
void cut_matrix(MatrixCopy* copy, int64_t piece_bytes);

// Copy a matrix to the device: 0 once all transfers are enqueued, else STOPPED or what the driver says.
int send_matrix(Slabs* slabs, MatrixCopy* copy);

// Begin the transfers of a matrix from the device, after those of the ones before it, while there are
// pieces and slabs left: 0, else STOPPED or what the driver says.
int begin_fetching(Slabs* slabs, MatrixCopy* copy);

// Wait for the next piece of the oldest matrix that was begun, and copy it: 0, or what the driver says.
int fetch_piece(Slabs* slabs, MatrixCopy* copy);

// Let go of the slabs with pieces of a matrix that are not wanted any more.
void drop_pieces(Slabs* slabs, MatrixCopy* copy);

// Wait until the device has done with all slabs: 0, or what the driver says of the first that failed.
int await_slabs(Slabs* slabs);
