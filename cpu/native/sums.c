// Reads a matrix once with several threads: weighted sums of rows over blocks of columns, largest
// magnitudes of columns, and conversion from float16 and bfloat16 to single precision.
//
// Memory bandwidth limits all of this, so vectors of 32 bytes suffice on every machine. Loads are unaligned.
#include "../../native/pool.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define FOR_HALVES __attribute__((target("avx,f16c")))
#elif defined(__aarch64__)
#define FOR_HALVES
#endif

enum { FLOATS = 8, DOUBLES = 4 };

// A matrix with adjacent elements in each row, and what to compute of it.
typedef struct {
    const char* matrix;
    int64_t row_bytes;  // from one row to the next
    int64_t rows, columns;
    int64_t item;  // bytes of an element; 2 is half precision
    int64_t is_bfloat;  // whether that is bfloat16
    Pool* pool;
    int64_t helpers;      // largest number of helpers; 0 without a pool
    const void* weights;  // one for each column, of the sums' type
    int64_t width;        // columns of a block, at most 1024
    int64_t magnitudes;   // whether to sum magnitudes
    void* out;
} Rows;

typedef float Floats __attribute__((vector_size(32)));
typedef double Doubles __attribute__((vector_size(32)));
typedef int32_t Words __attribute__((vector_size(32)));
typedef int64_t LongWords __attribute__((vector_size(32)));

// The sums of one row. Two totals make the additions independent of each other.
#define DEFINE_SUM(NAME, REAL, VECTOR, BITS, LANES)                                                       \
    static void NAME(                                                                                     \
        const REAL* row, int64_t columns, const REAL* weights, int64_t width, int64_t magnitudes, REAL* sums) \
    {                                                                                                     \
        const BITS kept = magnitudes ? ~(BITS)(-(VECTOR){0}) : ~(BITS){0};                                \
        for (int64_t start = 0; start < columns; start += width) {                                        \
            const int64_t stop = start + width < columns ? start + width : columns;                       \
            VECTOR first = {0}, second = {0}, factors;                                                    \
            BITS elements;                                                                                \
            int64_t j = start;                                                                            \
            for (; j + 2 * LANES <= stop; j += 2 * LANES) {                                               \
                memcpy(&elements, row + j, sizeof elements);                                              \
                memcpy(&factors, weights + j, sizeof factors);                                            \
                first += (VECTOR)(elements & kept) * factors;                                             \
                memcpy(&elements, row + j + LANES, sizeof elements);                                      \
                memcpy(&factors, weights + j + LANES, sizeof factors);                                    \
                second += (VECTOR)(elements & kept) * factors;                                            \
            }                                                                                             \
            first += second;                                                                              \
            REAL total = 0;                                                                               \
            for (int lane = 0; lane < LANES; ++lane) total += first[lane];                                \
            for (; j < stop; ++j) total += (magnitudes && row[j] < 0 ? -row[j] : row[j]) * weights[j];    \
            *sums++ = total;                                                                              \
        }                                                                                                 \
    }

DEFINE_SUM(sum_floats, float, Floats, Words, FLOATS)
DEFINE_SUM(sum_doubles, double, Doubles, LongWords, DOUBLES)

// Vectors of 16 bytes: compilers make scalar code of comparisons of longer ones if the baseline instruction
// set lacks them.
typedef float ShortFloats __attribute__((vector_size(16)));
typedef double ShortDoubles __attribute__((vector_size(16)));
typedef int32_t ShortWords __attribute__((vector_size(16)));
typedef int64_t ShortLongWords __attribute__((vector_size(16)));

// Update the largest magnitude of each column with one more row, ignoring NaN.
#define DEFINE_RAISE(NAME, REAL, VECTOR, BITS, LANES)                        \
    static void NAME(const REAL* row, int64_t columns, REAL* maxima)         \
    {                                                                        \
        int64_t j = 0;                                                       \
        for (; j + LANES <= columns; j += LANES) {                           \
            VECTOR elements, largest;                                        \
            memcpy(&elements, row + j, sizeof elements);                     \
            memcpy(&largest, maxima + j, sizeof largest);                    \
            const BITS sign = (BITS)(-(VECTOR){0});                          \
            const BITS magnitudes = (BITS)elements & ~sign;                  \
            const BITS larger = (BITS)((VECTOR)magnitudes > largest);        \
            const BITS chosen = (magnitudes & larger) | ((BITS)largest & ~larger); \
            memcpy(maxima + j, &chosen, sizeof chosen);                      \
        }                                                                    \
        for (; j < columns; ++j) {                                           \
            const REAL magnitude = row[j] < 0 ? -row[j] : row[j];            \
            if (magnitude > maxima[j]) maxima[j] = magnitude;                \
        }                                                                    \
    }

DEFINE_RAISE(raise_floats, float, ShortFloats, ShortWords, FLOATS / 2)
DEFINE_RAISE(raise_doubles, double, ShortDoubles, ShortLongWords, DOUBLES / 2)

// Whether this machine can convert float16.
#if defined(__x86_64__)

EXPORTED int has_halves(void) { return __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c"); }

FOR_HALVES static void widen_halves(const uint16_t* halves, int64_t count, float* floats)
{
    int64_t j = 0;
    for (; j + FLOATS <= count; j += FLOATS) {
        const __m128i packed = _mm_loadu_si128((const __m128i*)(halves + j));
        _mm256_storeu_ps(floats + j, _mm256_cvtph_ps(packed));
    }
    for (; j < count; ++j) floats[j] = _cvtsh_ss(halves[j]);
}

#elif defined(__aarch64__)

EXPORTED int has_halves(void) { return 1; }

static void widen_halves(const uint16_t* halves, int64_t count, float* floats)
{
    const __fp16* numbers = (const __fp16*)halves;
    for (int64_t j = 0; j < count; ++j) floats[j] = numbers[j];
}

#else

EXPORTED int has_halves(void) { return 0; }

static void widen_halves(const uint16_t* halves, int64_t count, float* floats)
{
    (void)halves, (void)count, (void)floats;
}

#endif

// A bfloat16 is the upper half of a float.
static void widen_bfloats(const uint16_t* bfloats, int64_t count, float* floats)
{
    for (int64_t j = 0; j < count; ++j) {
        const uint32_t bits = (uint32_t)bfloats[j] << 16;
        memcpy(floats + j, &bits, sizeof bits);
    }
}

static void widen(const Rows* rows, const uint16_t* elements, int64_t count, float* floats)
{
    (rows->is_bfloat ? widen_bfloats : widen_halves)(elements, count, floats);
}

// A pass over all rows. The caller and its helpers take parts; each thread has a number.
typedef struct {
    Task task;  // first, because helpers get its address
    void (*take)(const Rows* rows, int64_t row, int64_t thread);
    const Rows* rows;
    int64_t step;
    _Atomic int64_t next, threads;
} Sweep;

static void help_sweep(Task* task)
{
    Sweep* const sweep = (Sweep*)task;
    const int64_t thread = atomic_fetch_add(&sweep->threads, 1);
    for (;;) {
        const int64_t first = atomic_fetch_add(&sweep->next, sweep->step);
        const int64_t stop = first + sweep->step < sweep->rows->rows ? first + sweep->step : sweep->rows->rows;
        if (first >= stop) return;
        for (int64_t row = first; row < stop; ++row) sweep->take(sweep->rows, row, thread);
    }
}

static void sweep_rows(const Rows* rows, void (*take)(const Rows*, int64_t, int64_t))
{
    const int64_t row_bytes = rows->columns * rows->item;
    const int64_t step = row_bytes < PART_BYTES ? PART_BYTES / row_bytes : 1;
    const int64_t others = (rows->rows - 1) / step;  // parts after the first
    Sweep sweep = {.task.help = help_sweep, .take = take, .rows = rows, .step = step};
    atomic_init(&sweep.task.places, (int)(rows->helpers < others ? rows->helpers : others));
    if (rows->helpers > 0) offer_task(rows->pool, &sweep.task);
    if (rows->helpers > 0) call_helpers(rows->pool, &sweep.task, EVERYONE);
    help_sweep(&sweep.task);
    withdraw_task(&sweep.task);
}

static const char* find_row(const Rows* rows, int64_t row) { return rows->matrix + row * rows->row_bytes; }

static void widen_row(const Rows* rows, int64_t row, int64_t thread)
{
    (void)thread;
    widen(rows, (const uint16_t*)find_row(rows, row), rows->columns, (float*)rows->out + row * rows->columns);
}

enum { CHUNK = 1024 };

static void sum_half_row(const Rows* rows, int64_t row)
{
    const int64_t width = rows->width, columns = rows->columns, blocks = (columns + width - 1) / width;
    const int64_t step = CHUNK / width * width;
    const uint16_t* halves = (const uint16_t*)find_row(rows, row);
    const float* weights = rows->weights;
    float* sums = (float*)rows->out + row * blocks;
    float floats[CHUNK];
    for (int64_t first = 0; first < columns; first += step) {
        const int64_t count = first + step < columns ? step : columns - first;
        widen(rows, halves + first, count, floats);
        sum_floats(floats, count, weights + first, width, rows->magnitudes, sums + first / width);
    }
}

static void raise_half_row(const Rows* rows, int64_t row, float* maxima)
{
    const uint16_t* halves = (const uint16_t*)find_row(rows, row);
    float floats[CHUNK];
    for (int64_t first = 0; first < rows->columns; first += CHUNK) {
        const int64_t count = first + CHUNK < rows->columns ? CHUNK : rows->columns - first;
        widen(rows, halves + first, count, floats);
        raise_floats(floats, count, maxima + first);
    }
}

static void sum_row(const Rows* rows, int64_t row, int64_t thread)
{
    (void)thread;
    if (rows->item == sizeof(uint16_t)) {
        sum_half_row(rows, row);
        return;
    }
    const int64_t width = rows->width, columns = rows->columns, blocks = (columns + width - 1) / width;
    const void* elements = find_row(rows, row);
    if (rows->item == sizeof(double)) {
        sum_doubles(elements, columns, rows->weights, width, rows->magnitudes, (double*)rows->out + row * blocks);
    } else {
        sum_floats(elements, columns, rows->weights, width, rows->magnitudes, (float*)rows->out + row * blocks);
    }
}

static void raise_row(const Rows* rows, int64_t row, int64_t thread)
{
    const void* elements = find_row(rows, row);
    if (rows->item == sizeof(uint16_t)) {
        raise_half_row(rows, row, (float*)rows->out + thread * rows->columns);
    } else if (rows->item == sizeof(double)) {
        raise_doubles(elements, rows->columns, (double*)rows->out + thread * rows->columns);
    } else {
        raise_floats(elements, rows->columns, (float*)rows->out + thread * rows->columns);
    }
}

// Convert half-precision rows to single precision, stored without gaps.
EXPORTED void widen_rows(const Rows* rows) { sweep_rows(rows, widen_row); }

// Weighted sums of each row over blocks of columns: double for double, float for float and half.
EXPORTED void sum_blocks(const Rows* rows) { sweep_rows(rows, sum_row); }

// Largest magnitudes of columns, one row of results for each thread, ignoring NaN.
EXPORTED void raise_maxima(const Rows* rows) { sweep_rows(rows, raise_row); }
