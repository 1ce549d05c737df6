// Copies between pageable memory and the device by the threads of a pool (stage.c).
#pragma once

#include "pieces.h"

typedef struct Stage Stage;

enum { MOST_MATRICES = 3 };  // of a request

// Queue copies in one direction; returns their number in it, from 1, or 0 without memory. To the device they are done
// when all transfers are enqueued, to the host when all bytes have arrived. Memory and events must live until then.
//
// matrices: without what cut_matrix sets. after: event that the transfers wait for. start, end: events to record
// before and after all of them. NULL for none of these.
int64_t request_copies(
    Stage* stage, const MatrixCopy* matrices, int count, void* after, void* start, void* end);

// Wait until a request is done: returns 0, or the first error of any.
int await_copy(Stage* stage, int inwards, int64_t number);
