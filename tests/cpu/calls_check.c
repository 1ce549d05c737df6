// Calls the C library of products from several threads at once, for the sanitizers. Callers share one pool, and
// plain loops replace BLAS. Some calls are abandoned, and pools are closed during calls. Exits with 1 if an element
// is wrong, or a report.
#include "../../cpu/native/calls.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CALLERS = 18,  // more than tasks that are on offer at one time
    THREADS = 3,
    ROUNDS = 20,
    M = 37,
    N = 19,
    K = 4,
    HEIGHT = 2,  // of a block
    MOST_BLOCKS = (M + HEIGHT - 1) / HEIGHT * 2,
    DROPPED = 5,  // a call is abandoned every 5th round
};

// What one call uses. New each time, so that the sanitizers find a thread that still uses the last ones.
typedef struct {
    float *a, *b, *c, *sums;
    Block* blocks;
    int is_deep;  // whether K is cut
    int count;
    Product product;
} Work;

static atomic_int wrong;

static void expect(int holds, const char* what)
{
    if (holds) return;
    fprintf(stderr, "calls_check: %s\n", what);
    atomic_store(&wrong, 1);
}

// As cblas has it, for matrices by rows that are not transposed.
static void multiply(
    int order, int turn_a, int turn_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
    const float* b, int64_t ldb, float beta, float* c, int64_t ldc)
{
    expect(order == 101 && turn_a == 111 && turn_b == 111, "a matrix is turned");
    for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
            float sum = 0;
            for (int64_t l = 0; l < k; ++l) sum += a[i * lda + l] * b[l * ldb + j];
            c[i * ldc + j] = alpha * sum + (beta == 0 ? 0 : beta * c[i * ldc + j]);
        }
    }
}

static void multiply_vector(
    int order, int turn, int64_t m, int64_t n, float alpha, const float* a, int64_t lda, const float* x,
    int64_t step_x, float beta, float* y, int64_t step_y)
{
    expect(order == 101, "a matrix is turned");
    for (int64_t i = 0; i < (turn == 111 ? m : n); ++i) {
        float sum = 0;
        for (int64_t l = 0; l < (turn == 111 ? n : m); ++l) {
            sum += (turn == 111 ? a[i * lda + l] : a[l * lda + i]) * x[l * step_x];
        }
        y[i * step_y] = alpha * sum + (beta == 0 ? 0 : beta * y[i * step_y]);
    }
}

static const Blas blas = {{(void*)multiply, NULL}, {(void*)multiply_vector, NULL}, sizeof(int64_t)};

static float* make_matrix(int elements)
{
    float* matrix = malloc(elements * sizeof(float));
    for (int i = 0; i < elements; ++i) matrix[i] = (float)(i % 7 - 3);
    return matrix;
}

static Work make_work(int is_deep)
{
    Work work = {
        .a = make_matrix(M * K), .b = make_matrix(K * N), .c = malloc(M * N * sizeof(float)),
        .sums = make_matrix(2 * M * N), .blocks = malloc(MOST_BLOCKS * sizeof(Block)), .is_deep = is_deep,
    };
    memset(work.c, 0xff, M * N * sizeof(float));
    work.product = (Product){
        .a = (char*)work.a, .b = (char*)work.b, .c = (char*)work.c, .a_row = K * 4, .a_column = 4,
        .b_row = N * 4, .b_column = 4, .c_row = N * 4, .c_column = 4, .n = N, .k = K, .item = 4, .alpha = 1,
    };
    if (is_deep) {
        work.blocks[work.count++] = (Block){0, M, 0, N, 0, K / 2};
        work.blocks[work.count++] = (Block){0, M, 0, N, K / 2, K};
        return work;
    }
    for (int row = 0; row < M; row += HEIGHT) {
        const int stop = row + HEIGHT < M ? row + HEIGHT : M;
        work.blocks[work.count++] = (Block){row, stop, 0, N / 2, 0, K};
        work.blocks[work.count++] = (Block){row, stop, N / 2, N, 0, K};
    }
    return work;
}

static void free_work(Work* work)
{
    free(work->a);
    free(work->b);
    free(work->c);
    free(work->sums);
    free(work->blocks);
}

// Check some rows of the result.
static void check_rows(const Work* work, int64_t start, int64_t stop)
{
    for (int64_t i = start; i < stop; ++i) {
        for (int j = 0; j < N; ++j) {
            float sum = 0;
            for (int l = 0; l < K; ++l) sum += work->a[i * K + l] * work->b[l * N + j];
            const int64_t at = i * N + j;
            expect((work->is_deep ? work->sums[at] + work->sums[M * N + at] : work->c[at]) == sum, "C is wrong");
        }
    }
}

static char* find_sums(const Work* work) { return work->is_deep ? (char*)work->sums : NULL; }

static Call* begin(Pool* pool, const Work* work)
{
    return begin_call(pool, &blas, &work->product, THREADS, find_sums(work), work->blocks, work->count);
}

// Follow a call, and check what it reports; abandon it after `steps` steps, -1 for never.
static void follow(Call* call, const Work* work, int steps)
{
    Report report;
    int64_t terms = 0;
    int is_on = 1;
    for (int step = 0; is_on && step != steps; ++step) {
        is_on = compute_next(call, &report);
        terms += report.terms;
        check_rows(work, 0, report.open_start);
        check_rows(work, report.open_stop, M);
    }
    end_call(call);
    if (!is_on) check_rows(work, 0, M);
    expect(is_on || terms == (int64_t)M * N * K, "terms are missing");
    expect(steps >= 0 || !is_on, "the call did not end");
}

static Pool* pool;

static void* call_often(void* argument)
{
    for (int round = 0; round < ROUNDS; ++round) {
        const int is_deep = round % 3 == 2;
        Work work = make_work(is_deep);
        if (round % DROPPED == DROPPED - 1) {
            follow(begin(pool, &work), &work, round % 4);
        } else if (round % 2) {
            follow(begin(pool, &work), &work, -1);
        } else {
            multiply_at_once(
                pool, &blas, &work.product, THREADS, find_sums(&work), work.blocks, work.count);
            check_rows(&work, 0, M);
        }
        free_work(&work);
    }
    return argument;
}

static void* close_it(void* argument)
{
    close_pool(argument);
    return NULL;
}

// A pool is closed during a call, which its caller then ends alone.
static void close_early(int threads)
{
    Pool* closing = open_pool(threads, AWAKE_NANOSECONDS, 1);
    if (threads == 1) usleep(1000);  // it goes to sleep
    Work work = make_work(0);
    Call* const call = begin(closing, &work);
    pthread_t closer;
    pthread_create(&closer, NULL, close_it, closing);
    follow(call, &work, -1);
    pthread_join(closer, NULL);
    free_pool(closing);
    free_work(&work);
}

int main(void)
{
    pool = open_pool(THREADS, AWAKE_NANOSECONDS, 1);
    pthread_t thread[CALLERS];
    for (int i = 0; i < CALLERS; ++i) pthread_create(&thread[i], NULL, call_often, NULL);
    for (int i = 0; i < CALLERS; ++i) pthread_join(thread[i], NULL);
    close_pool(pool);
    free_pool(pool);
    for (int i = 0; i < ROUNDS; ++i) close_early(1 + i % THREADS);
    return atomic_load(&wrong);
}
