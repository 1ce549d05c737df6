// A matrix that is copied between pageable memory and the device, cut into pieces. Each piece passes through a
// page-locked slab, by one thread: it copies between the caller's memory and the slab, and enqueues the transfer
// between the slab and the device.
#pragma once

#include "../../../native/pool.h"

#include <stdint.h>

// A matrix to copy, its layout on the device, and how it is cut.
typedef struct {
    char* host;
    int64_t host_row, host_column;  // bytes from one element to the next
    unsigned long long device;
    int64_t device_pitch, padding;  // bytes; padding: all between two rows, or 0
    int64_t rows, columns, item;
    int inwards;  // to the device, or from it
    int64_t piece_rows, piece_columns, pieces_across, pieces, pitch;  // set by cut_matrix
} MatrixCopy;

// Cut a non-empty matrix into pieces of at most `slab_bytes`, a large one into enough for several threads.
void cut_matrix(MatrixCopy* copy, int64_t slab_bytes);

// Copy a piece between the caller's memory and a slab.
void copy_piece(const MatrixCopy* copy, int64_t index, char* slab);

// Enqueue the transfer of a piece between a slab and the device: returns a CUresult.
int transfer_piece(const MatrixCopy* copy, int64_t index, char* slab, void* stream);
