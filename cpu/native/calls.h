// Products on the CPU: threads of a pool (native/pool.h) compute blocks by BLAS (blas.c).
#pragma once

#include "../../native/pool.h"

#include <stdint.h>

// Kinds of elements: BLAS has float, double and the complex numbers of each; bfloat16 comes after them.
enum { KINDS = 4, BFLOATS = 4 };

// Addresses of BLAS functions, for each kind of elements, and the size of BLAS's integers.
typedef struct {
    void* gemm[KINDS];
    void* gemv[KINDS];
    int64_t integer_bytes;
    int64_t tiles;  // whether the CPU's tiles multiply bfloat16 instead
} Blas;

// C ← αA·B + βC. Strides are in bytes; one stride of each matrix is the size of an element, the other a
// leading dimension that BLAS accepts. α and all sizes are not 0.
typedef struct {
    const char* a;
    const char* b;
    char* c;
    int64_t a_row, a_column, b_row, b_column, c_row, c_column;
    int64_t n, k;
    int64_t item;  // bytes of an element
    int64_t kind;
    int64_t is_streamed;  // whether a row-major C is written past the caches where β is 0, with all of K
    double alpha, beta;
} Product;

// Rows, columns and a range of K that one thread computes at a time.
typedef struct {
    int64_t row_start, row_stop, column_start, column_stop, depth_start, depth_stop;
} Block;

// What compute_next tells the caller.
typedef struct {
    int64_t terms;  // elements of C finished since the last report, times K
    int64_t open_start, open_stop;  // range of rows whose blocks are not finished
} Report;

typedef struct Call Call;

// Whether tiles multiply bfloat16 faster than this BLAS, by a short trial.
EXPORTED int prefers_tiles(const Blas* blas);

// Begin a call with at most `helpers` threads of the pool. They join at the first compute_next; until then no array
// is used. There is at least one block; blocks are in the order of their rows, and stay until the call ends. With
// `sums`, blocks are ranges of K, and their products, row-major and without factors, are stored there one after the
// other. Returns NULL without memory.
EXPORTED Call* begin_call(
    Pool* pool, const Blas* blas, const Product* product, int helpers, char* sums, const Block* blocks,
    int64_t count);

// Compute the next block in the calling thread, the same for all blocks; if helpers have the rest, wait for them.
// Returns 1 after a block, and 0 when all is done.
EXPORTED int compute_next(Call* call, Report* report);

// Drop the blocks that have not begun, wait for the others, and free the call.
EXPORTED void end_call(Call* call);

// Compute a whole product: a call without reports. Returns 0 without memory.
EXPORTED int multiply_at_once(
    Pool* pool, const Blas* blas, const Product* product, int helpers, char* sums, const Block* blocks,
    int64_t count);

// Compute one block, into C if `sum` is NULL, else into `sum`, with the thread's own `memory` for bfloat16, and for
// a C that is streamed.
void multiply_block(const Blas* blas, const Product* product, const Block* block, char* sum, float* memory);

enum { MEMORY_FLOATS = 3 * TEMPORARY_ELEMENTS };  // of `memory`: of A, of B and of their product

// The same for a C that is streamed (streamed.c). Returns 0, with nothing done, where stores cannot bypass caches.
int multiply_streamed(const Blas* blas, const Product* product, const Block* block, char* memory);

// The same for bfloat16 (bfloats.c); `sum` is of floats.
void multiply_bfloats(const Blas* blas, const Product* product, const Block* block, float* sum, float* memory);
