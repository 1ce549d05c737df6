// Calls the C library of products from several threads at once, for the sanitizers. Callers share one
// pool, plain loops replace BLAS, and any thread without work adds a part. Some calls are abandoned,
// some takers fail, and pools are closed during calls. Exits with 1 if an element is wrong.
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
    K = 11,
    PART = 6,  // rows
    HEIGHT = 2,  // of a block
    FAILING = 7,  // a taker fails every 7th round
    DROPPED = 5,  // a call is abandoned every 5th round
};

typedef struct {
    Call* call;
    float *a, *b, *c;
    float* sums;
    int rows;  // taken
    int round;
    atomic_int inside;  // takers
} Caller;

static Caller callers[CALLERS];
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

static int take(int64_t key, double rows_in_progress)
{
    Caller* caller = &callers[key];
    expect(atomic_fetch_add(&caller->inside, 1) == 0, "two take at once");
    expect(rows_in_progress >= 0 && rows_in_progress < M + 1, "more rows are in progress than there are");
    const int top = caller->rows, bottom = top + PART < M ? top + PART : M;
    const int fails = caller->round % FAILING == FAILING - 1 && top > M / 2;
    caller->rows = bottom;
    atomic_fetch_sub(&caller->inside, 1);
    if (fails) {
        usleep(1000);  // threads that wait for the part fall asleep
        return 0;
    }
    if (top == M) {
        end_parts(caller->call);
        return 1;
    }
    Block blocks[PART];
    int count = 0;
    for (int row = 0; row < bottom - top; row += HEIGHT) {
        const int stop = row + HEIGHT < bottom - top ? row + HEIGHT : bottom - top;
        blocks[count++] = (Block){row, stop, 0, N / 2, 0, K};
        blocks[count++] = (Block){row, stop, N / 2, N, 0, K};
    }
    return add_part(caller->call, top, NULL, blocks, count, key % 2 && bottom == M);
}

// The whole of C from two parts of K.
static int take_depth(int64_t key, double rows_in_progress)
{
    (void)rows_in_progress;
    Caller* caller = &callers[key];
    if (caller->rows == M) {
        end_parts(caller->call);
        return 1;
    }
    caller->rows = M;
    const Block blocks[] = {{0, M, 0, N, 0, K / 2}, {0, M, 0, N, K / 2, K}};
    return add_part(caller->call, 0, (char*)caller->sums, blocks, 2, key % 2);
}

static void check_result(const Caller* caller, int is_deep)
{
    for (int i = 0; i < M; ++i) {
        for (int j = 0; j < N; ++j) {
            float sum = 0;
            for (int l = 0; l < K; ++l) sum += caller->a[i * K + l] * caller->b[l * N + j];
            const int at = i * N + j;
            expect((is_deep ? caller->sums[at] + caller->sums[M * N + at] : caller->c[at]) == sum, "C is wrong");
        }
    }
}

// One call, abandoned after `steps` steps; -1 for never.
static void call_once(Pool* pool, Caller* caller, int64_t key, int is_deep, int steps)
{
    const Product product = {
        .a = (char*)caller->a, .b = (char*)caller->b, .c = (char*)caller->c, .a_row = K * 4, .a_column = 4,
        .b_row = N * 4, .b_column = 4, .c_row = N * 4, .c_column = 4, .n = N, .k = K, .item = 4, .alpha = 1,
    };
    Taker taker = is_deep ? take_depth : take;
    caller->rows = 0;
    memset(caller->c, 0xff, M * N * sizeof(float));
    caller->call = begin_call(pool, &blas, &product, THREADS, taker, key);
    Report report;
    int64_t terms = 0;
    int state = ON, failed = 0;
    for (int step = 0; state != OVER && !failed && step != steps; ++step) {
        state = compute_next(caller->call, &report);
        terms += report.terms;
        if (state == TAKE) failed = !taker(key, report.rows_in_progress);
    }
    end_call(caller->call);
    if (state == OVER && caller->rows == M && terms == (int64_t)M * N * K) check_result(caller, is_deep);
    if (steps < 0 && caller->round % FAILING != FAILING - 1) {
        expect(state == OVER && terms == (int64_t)M * N * K, "terms are missing");
    }
}

static float* make_matrix(int elements)
{
    float* matrix = malloc(elements * sizeof(float));
    for (int i = 0; i < elements; ++i) matrix[i] = (float)(i % 7 - 3);
    return matrix;
}

static Pool* pool;

static void* call_often(void* argument)
{
    const int64_t key = (int64_t)(intptr_t)argument;
    Caller* caller = &callers[key];
    for (caller->round = 0; caller->round < ROUNDS; ++caller->round) {
        // New each time, so that the sanitizers find a thread that still uses the last ones.
        caller->a = make_matrix(M * K);
        caller->b = make_matrix(K * N);
        caller->c = make_matrix(M * N);
        caller->sums = make_matrix(2 * M * N);
        const int is_dropped = caller->round % DROPPED == DROPPED - 1;
        call_once(pool, caller, key, caller->round % 3 == 2, is_dropped ? caller->round % 4 : -1);
        free(caller->a);
        free(caller->b);
        free(caller->c);
        free(caller->sums);
    }
    return NULL;
}

static void* close_it(void* argument)
{
    close_pool(argument);
    return NULL;
}

// A pool is closed during a call, which its caller then ends alone.
static void close_early(int threads)
{
    Pool* closing = open_pool(threads, 1, threads % 2);
    if (threads == 1) usleep(1000);  // it goes to sleep
    Caller* caller = &callers[0];
    *caller = (Caller){.a = make_matrix(M * K), .b = make_matrix(K * N), .c = make_matrix(M * N)};
    const Product product = {
        .a = (char*)caller->a, .b = (char*)caller->b, .c = (char*)caller->c, .a_row = K * 4, .a_column = 4,
        .b_row = N * 4, .b_column = 4, .c_row = N * 4, .c_column = 4, .n = N, .k = K, .item = 4, .alpha = 1,
    };
    caller->call = begin_call(closing, &blas, &product, THREADS, take, 0);
    pthread_t closer;
    pthread_create(&closer, NULL, close_it, closing);
    Report report;
    for (int state = ON; state != OVER;) {
        state = compute_next(caller->call, &report);
        if (state == TAKE) take(0, report.rows_in_progress);
    }
    check_result(caller, 0);
    end_call(caller->call);
    pthread_join(closer, NULL);
    free_pool(closing);
    free(caller->a);
    free(caller->b);
    free(caller->c);
}

int main(void)
{
    pool = open_pool(THREADS, 1, 1);
    pthread_t thread[CALLERS];
    for (intptr_t i = 0; i < CALLERS; ++i) pthread_create(&thread[i], NULL, call_often, (void*)i);
    for (int i = 0; i < CALLERS; ++i) pthread_join(thread[i], NULL);
    close_pool(pool);
    free_pool(pool);
    for (int i = 0; i < ROUNDS; ++i) close_early(1 + i % THREADS);
    return atomic_load(&wrong);
}
