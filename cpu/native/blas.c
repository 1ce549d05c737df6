// One block of a product by BLAS: by gemm, or by gemv where it has one row or one column.
#include "calls.h"

#include <string.h>

enum { ROW_MAJOR = 101, COLUMN_MAJOR = 102, PLAIN = 111, TRANSPOSED = 112 };  // as cblas.h has them

// A matrix for BLAS: strides in elements, one of which is 1.
typedef struct {
    char* data;
    int64_t row, column;
} View;

typedef struct {
    View a, b, c;
    int64_t m, n, k;
    double alpha, beta;
    void* gemm;
    void* gemv;
} Work;

static int is_by_rows(View view) { return view.column == 1; }

static int64_t leading_dimension(View view) { return is_by_rows(view) ? view.row : view.column; }

static int order_of(View view) { return is_by_rows(view) ? ROW_MAJOR : COLUMN_MAJOR; }

// Whether a matrix is transposed relative to the order of the call.
static int transposition_of(View view, int order) { return order_of(view) == order ? PLAIN : TRANSPOSED; }

// Factors are passed by value, complex ones by address.
#define AS_IT_IS(factor) (factor)
#define BY_ADDRESS(factor) (&(factor))

// y is cleared first where β is 0: some gemv read it even then, and NaN would survive.
#define DEFINE_MULTIPLY(NAME, ELEMENT, FACTOR, PASS, INTEGER)                                           \
    static void NAME(const Work* work)                                                                  \
    {                                                                                                   \
        typedef void Gemm(                                                                              \
            int, int, int, INTEGER, INTEGER, INTEGER, FACTOR, const ELEMENT*, INTEGER, const ELEMENT*,  \
            INTEGER, FACTOR, ELEMENT*, INTEGER);                                                        \
        typedef void Gemv(                                                                              \
            int, int, INTEGER, INTEGER, FACTOR, const ELEMENT*, INTEGER, const ELEMENT*, INTEGER, FACTOR, \
            ELEMENT*, INTEGER);                                                                         \
        const View a = work->a, b = work->b, c = work->c;                                               \
        const ELEMENT alpha = (ELEMENT)work->alpha, beta = (ELEMENT)work->beta;                         \
        if (work->m > 1 && work->n > 1) {                                                               \
            const int order = order_of(c);                                                              \
            ((Gemm*)work->gemm)(                                                                        \
                order, transposition_of(a, order), transposition_of(b, order), (INTEGER)work->m,        \
                (INTEGER)work->n, (INTEGER)work->k, PASS(alpha), (const ELEMENT*)a.data,                \
                (INTEGER)leading_dimension(a),                                                          \
                (const ELEMENT*)b.data, (INTEGER)leading_dimension(b), PASS(beta), (ELEMENT*)c.data,    \
                (INTEGER)leading_dimension(c));                                                         \
            return;                                                                                     \
        }                                                                                               \
        const int is_row = work->m == 1; /* xᵀB, else A·x */                                            \
        const int64_t length = is_row ? work->n : work->m, step = is_row ? c.column : c.row;            \
        for (int64_t i = 0; beta == 0 && i < length; ++i) ((ELEMENT*)c.data)[i * step] = 0;             \
        const View matrix = is_row ? b : a;                                                             \
        ((Gemv*)work->gemv)(                                                                            \
            order_of(matrix), is_row ? TRANSPOSED : PLAIN, (INTEGER)(is_row ? work->k : work->m),       \
            (INTEGER)(is_row ? work->n : work->k), PASS(alpha), (const ELEMENT*)matrix.data,            \
            (INTEGER)leading_dimension(matrix), (const ELEMENT*)(is_row ? a : b).data,                  \
            (INTEGER)(is_row ? a.column : b.row), PASS(beta), (ELEMENT*)c.data, (INTEGER)step);         \
    }

DEFINE_MULTIPLY(multiply_floats_32, float, float, AS_IT_IS, int32_t)
DEFINE_MULTIPLY(multiply_doubles_32, double, double, AS_IT_IS, int32_t)
DEFINE_MULTIPLY(multiply_complex_floats_32, float _Complex, const void*, BY_ADDRESS, int32_t)
DEFINE_MULTIPLY(multiply_complex_doubles_32, double _Complex, const void*, BY_ADDRESS, int32_t)
DEFINE_MULTIPLY(multiply_floats_64, float, float, AS_IT_IS, int64_t)
DEFINE_MULTIPLY(multiply_doubles_64, double, double, AS_IT_IS, int64_t)
DEFINE_MULTIPLY(multiply_complex_floats_64, float _Complex, const void*, BY_ADDRESS, int64_t)
DEFINE_MULTIPLY(multiply_complex_doubles_64, double _Complex, const void*, BY_ADDRESS, int64_t)

typedef void Multiply(const Work* work);

static Multiply* const narrow[KINDS] = {
    multiply_floats_32, multiply_doubles_32, multiply_complex_floats_32, multiply_complex_doubles_32,
};
static Multiply* const wide[KINDS] = {
    multiply_floats_64, multiply_doubles_64, multiply_complex_floats_64, multiply_complex_doubles_64,
};

static View view(const char* data, int64_t row, int64_t column, int64_t item, int64_t top, int64_t left)
{
    return (View){(char*)data + top * row + left * column, row / item, column / item};
}

void multiply_block(const Blas* blas, const Product* product, const Block* block, char* sum, float* memory)
{
    if (product->kind == BFLOATS) {
        multiply_bfloats(blas, product, block, (float*)sum, memory);
        return;
    }
    if (product->is_streamed && product->beta == 0 && multiply_streamed(blas, product, block, (char*)memory)) return;
    const int64_t top = block->row_start, left = block->column_start;
    const int64_t columns = block->column_stop - left, item = product->item;
    Work work = {
        .a = view(product->a, product->a_row, product->a_column, item, top, block->depth_start),
        .b = view(product->b, product->b_row, product->b_column, item, block->depth_start, left),
        .c = view(product->c, product->c_row, product->c_column, item, top, left),
        .m = block->row_stop - block->row_start, .n = columns, .k = block->depth_stop - block->depth_start,
        .alpha = product->alpha, .beta = product->beta,
        .gemm = blas->gemm[product->kind], .gemv = blas->gemv[product->kind],
    };
    if (sum != NULL) {
        work.c = (View){sum, columns, 1};
        work.alpha = 1;
        work.beta = 0;
    }
    (blas->integer_bytes == sizeof(int64_t) ? wide : narrow)[product->kind](&work);
}
