// Copies of matrices between pageable memory and the device, piece by piece through page-locked slabs.
//
// To the device, threads of a pool fill a slab, then it is transferred; it is free again when the
// transfer has ended. If transfers follow at once, slabs are filled past the caches. Where they lag
// behind, a slab has left the caches of the cores by then, and memcpy fills it faster.
//
// From the device, transfers run ahead into all free slabs, and the threads empty each slab as it
// arrives. They run ahead into the next matrices as well: otherwise the link would idle while the last
// slab of a matrix is emptied.
#pragma once

#include "copies.h"

#include <stdatomic.h>

enum { STOPPED = -2 };  // not a result of the driver

typedef struct {
    char* memory;
    void* end;  // event after its last transfer
    int busy;  // whether that transfer may still be under way
} Slab;

// The slabs of one direction, their pool and stream. Except for the atomic fields, only one thread at a
// time uses them.
typedef struct {
    Pool* pool;
    void* stream;
    int64_t slab_bytes;
    atomic_int helpers;  // largest number of pool threads that help
    atomic_int stopping;
    int count;
    int64_t begun;  // slabs taken into use so far
    int64_t emptied;  // slabs free again so far, from the device
    Slab slab[];
} Slabs;

// A matrix to copy, its place on the device, its pieces, and the progress.
typedef struct {
    char* host;
    int64_t host_row, host_column;  // bytes from one element to the next
    unsigned long long device;
    int64_t device_pitch, padding;  // bytes; padding: all between two rows, or 0
    int64_t rows, columns, item;
    int streams;  // to the device: whether it bypasses the caches
    int64_t piece_rows, piece_columns, pieces_across, pieces, pitch;  // set by cut_matrix
    int64_t begun, fetched;  // pieces whose transfer has begun, pieces copied from their slab
} MatrixCopy;

// The functions below that return int return 0, a CUresult, or STOPPED.

// Open slabs; their memory remains the caller's. Returns NULL without memory or without a context.
Slabs* open_slabs(Pool* pool, void* stream, void* const* memories, int count, int64_t slab_bytes);

// Close slabs, in the same context. Nothing may be under way.
void close_slabs(Slabs* slabs);

// Cut a non-empty matrix into pieces of at most `piece_bytes`, which fit a slab.
void cut_matrix(MatrixCopy* copy, int64_t piece_bytes);

// Copy a matrix to the device; returns once all transfers are enqueued.
int send_matrix(Slabs* slabs, MatrixCopy* copy);

// Begin transfers of a matrix from the device while pieces and free slabs are left. Those of earlier
// matrices must all have begun.
int begin_fetching(Slabs* slabs, MatrixCopy* copy);

// Wait for the next piece of the oldest matrix, and copy it to the caller's memory.
int fetch_piece(Slabs* slabs, MatrixCopy* copy);

// Release the slabs with pieces of a matrix that are no longer wanted.
void drop_pieces(Slabs* slabs, MatrixCopy* copy);

// Wait until no slab has a transfer under way; returns the first error.
int await_slabs(Slabs* slabs);
