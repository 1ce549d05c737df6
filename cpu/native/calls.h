// Products on the CPU by threads of a pool (native/pool.h) that call BLAS, one block each (blas.c).
#pragma once

#include "../../native/pool.h"

#include <stdint.h>

// BLAS's own functions by their addresses, for float and double, and how wide its integers are.
typedef struct {
    void* gemm[2];
    void* gemv[2];
    int64_t integer_bytes;
} Blas;

// C ← αA·B + βC. Strides in bytes, of which one of each matrix is the size of an element and the
// other a leading dimension that BLAS takes. α is not 0, nor is any size.
typedef struct {
    const char* a;
    const char* b;
    char* c;
    int64_t a_row, a_column, b_row, b_column, c_row, c_column;
    int64_t n, k;
    int64_t item;  // 4 or 8
    double alpha, beta;
} Product;

// Rows of a part, columns, and a range of K: one piece of work for one thread.
typedef struct {
    int64_t row_start, row_stop, column_start, column_stop, depth_start, depth_stop;
} Block;

// What a caller hears: the elements of C finished since it last heard, each counted K times; from which
// row to which the parts so far reach, and between which of them blocks are not finished; and where it
// is to take a part, the rows that are left of the blocks in hand.
typedef struct {
    int64_t terms;
    int64_t taken_start, taken_stop, open_start, open_stop;
    double rows_in_progress;
} Report;

enum { OVER = 0, ON = 1, TAKE = 2 };

typedef struct Call Call;

// Adds the next part of a call, named by its key, or ends them; called in any thread of the pool. 0
// if it fails, which ends the parts, too.
typedef int (*Taker)(int64_t key, double rows_in_progress);

// A call that at most so many of the pool's threads help with; NULL if there is no memory.
EXPORTED Call* begin_call(
    Pool* pool, const Blas* blas, const Product* product, int helpers, Taker taker, int64_t key);

// Add a part: its blocks, whose rows begin at this row of A and C. With `sums` the blocks are parts of
// K, and the product of each, by rows and without factors, goes there, one behind the other. The last
// part may say that it is, which saves asking. Returns 0 if there is no memory. Only for who has been
// told to take.
EXPORTED int add_part(
    Call* call, int64_t first_row, char* sums, const Block* blocks, int64_t count, int last);

// There are no more parts. Only for who has been told to take.
EXPORTED void end_parts(Call* call);

// Compute in the calling thread, which is always the same: until all is done (OVER), or for so long
// or, if wished, for a single block (ON), or until it is to take a part (TAKE).
EXPORTED int compute_blocks(Call* call, int64_t nanoseconds, int single, Report* report);

// Drop the blocks that nobody has begun, wait for the others, and free the call.
EXPORTED void end_call(Call* call);

// One block; `sum` is NULL where it goes into C.
void multiply_block(const Blas* blas, const Product* product, const Block* block, int64_t first_row, char* sum);
