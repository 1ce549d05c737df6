// The ways of matrices between the caller's memory and the device: piece by piece through slabs of
// pinned memory.
//
// Inwards a team of threads fills a slab, and its transfer follows; the slab is used again when that is
// done. Outwards transfers run ahead as far as there are slabs, and the team empties one after the
// other as they arrive.
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
    Team* team;
    void* stream;
    int64_t slab_bytes;
    atomic_int helpers;  // at most so many of the team
    atomic_int stopping;
    int count;
    int next;
    Slab slab[];
} Slabs;

// A matrix, where it lies on the device, and how it is cut.
typedef struct {
    char* host;
    int64_t host_row, host_column;  // bytes from one element to the next
    unsigned long long device;
    int64_t device_pitch;  // bytes
    int64_t rows, columns, item;
    int64_t piece_rows, piece_columns, pieces_across, pieces, pitch;  // cut_way says
} Way;

// Slabs whose memory stays the caller's; NULL if there is no memory for them, or no context.
Slabs* open_slabs(Team* team, void* stream, void* const* memories, int count, int64_t slab_bytes);

// To be called in the same context; nothing may be under way.
void close_slabs(Slabs* slabs);

// Cut a matrix, which is not empty, into pieces of so many bytes, which is at most what a slab holds.
void cut_way(Way* way, int64_t piece_bytes);

// Copy a matrix to the device: 0 once all transfers are enqueued, else STOPPED or what the driver says.
int send_matrix(Slabs* slabs, const Way* way);

// Copy a matrix from the device: 0 when it is there, else STOPPED or what the driver says.
int fetch_matrix(Slabs* slabs, const Way* way);

// Wait until the device has done with all slabs: 0, or what the driver says of the first that failed.
int await_slabs(Slabs* slabs);
