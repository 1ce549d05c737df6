// Calls: products whose blocks are computed by the caller and by threads of a pool.
//
// One lock guards all shared state; it is locked for nanoseconds, a thousandth of the time of a block.
// A caller that waits for its helpers spins first, because most waits are short, and then sleeps.
//
// Threads wake up as a flat tree: the caller wakes some and begins its own block, and each woken thread
// wakes as many others. On a virtual machine it takes 0.1 ms or more to wake up, and some µs to wake
// another. So with 16 threads two levels are faster than four, and than a caller that wakes all.
#include "calls.h"

#include <pthread.h>
#include <stdlib.h>

struct Call {
    Task task;  // first, because helpers get its address
    Pool* pool;
    pthread_mutex_t lock;
    Blas blas;
    Product product;
    int is_offered;  // whether threads may join
    int users;       // helpers at work now
    int joined;      // helpers that ever joined
    char* sums;
    float* memory;  // of each thread; NULL if blocks need none
    const Block* blocks;
    int64_t count, left;  // blocks: all, and those that have not begun
    int64_t done_terms, told_terms;
    const Block* in_progress[];  // the caller's block, then those of the helpers; NULL for none
};

static void lock(Call* call)
{
    for (int i = 0; i < PAUSES; ++i) {
        if (pthread_mutex_trylock(&call->lock) == 0) return;
        pause_briefly();
    }
    pthread_mutex_lock(&call->lock);
}

static void unlock(Call* call) { pthread_mutex_unlock(&call->lock); }

// Release the lock until all helpers have left.
static void await_helpers(Call* call)
{
    Word* const changes = find_changes(call->pool);
    while (call->users > 0) {
        const unsigned seen = read_word(changes);
        unlock(call);
        await_word(changes, seen);
        lock(call);
    }
}

// Compute the next block, without the lock.
static void compute_block(Call* call, int thread)
{
    const int64_t index = call->count - call->left--;
    const Block* const block = call->in_progress[thread] = &call->blocks[index];
    unlock(call);
    const int64_t item = call->product.kind == BFLOATS ? (int64_t)sizeof(float) : call->product.item;  // of sums
    const int64_t elements = (block->row_stop - block->row_start) * (block->column_stop - block->column_start);
    char* const sum = call->sums == NULL ? NULL : call->sums + index * elements * item;
    float* const memory = call->memory == NULL ? NULL : call->memory + thread * MEMORY_FLOATS;
    multiply_block(&call->blas, &call->product, block, sum, memory);
    lock(call);
    call->done_terms += elements * (block->depth_stop - block->depth_start);
    call->in_progress[thread] = NULL;
}

// Run by each pool thread that joins a call.
static void help_call(Task* task)
{
    Call* const call = (Call*)task;
    call_others(call->pool, task, WOKEN);
    lock(call);
    ++call->users;
    const int thread = ++call->joined;
    while (call->left > 0 && !is_closing(call->pool)) compute_block(call, thread);
    if (--call->users == 0) change_word(find_changes(call->pool), EVERYONE);
    unlock(call);
}

Call* begin_call(
    Pool* pool, const Blas* blas, const Product* product, int helpers, char* sums, const Block* blocks,
    int64_t count)
{
    const int places = count - 1 < helpers ? (int)count - 1 : helpers;
    Call* call = calloc(1, sizeof(Call) + (places + 1) * sizeof(Block*));
    if (call == NULL) return NULL;
    *call = (Call){
        .task = {.help = help_call, .places = places}, .pool = pool, .blas = *blas, .product = *product,
        .sums = sums, .blocks = blocks, .count = count, .left = count,
    };
    if (product->kind == BFLOATS || product->is_streamed) {
        call->memory = malloc((places + 1) * MEMORY_FLOATS * sizeof(float));
        if (call->memory == NULL) {
            free(call);
            return NULL;
        }
    }
    pthread_mutex_init(&call->lock, NULL);
    return call;
}

static void find_helpers(Call* call)
{
    call->is_offered = 1;
    if (atomic_load(&call->task.places) == 0) return;
    clear_core(call->pool);
    offer_task(call->pool, &call->task);
    call_helpers(call->pool, &call->task, WOKEN);
}

// Report which rows may still be written: all from the first to the last row of unfinished blocks.
static void report_rows(const Call* call, Report* report)
{
    const int64_t all_rows = call->blocks[call->count - 1].row_stop;
    int64_t start = all_rows, stop = 0;
    for (int i = 0; i <= call->joined; ++i) {
        const Block* const block = call->in_progress[i];
        if (block != NULL && block->row_start < start) start = block->row_start;
        if (block != NULL && block->row_stop > stop) stop = block->row_stop;
    }
    if (call->left > 0) {  // blocks are in the order of their rows
        const int64_t first = call->blocks[call->count - call->left].row_start;
        if (first < start) start = first;
        stop = all_rows;
    }
    report->open_start = start;
    report->open_stop = start < stop ? stop : all_rows;
}

int compute_next(Call* call, Report* report)
{
    if (!call->is_offered) find_helpers(call);
    lock(call);
    const int computes = call->left > 0;
    if (computes) {
        compute_block(call, 0);
    } else {
        await_helpers(call);
    }
    report->terms = call->done_terms - call->told_terms;
    call->told_terms = call->done_terms;
    report_rows(call, report);
    unlock(call);
    return computes;
}

void end_call(Call* call)
{
    lock(call);
    call->left = 0;
    await_helpers(call);
    unlock(call);
    withdraw_task(&call->task);
    pthread_mutex_destroy(&call->lock);
    free(call->memory);
    free(call);
}

int multiply_at_once(
    Pool* pool, const Blas* blas, const Product* product, int helpers, char* sums, const Block* blocks,
    int64_t count)
{
    Call* const call = begin_call(pool, blas, product, helpers, sums, blocks, count);
    if (call == NULL) return 0;
    Report report;
    while (compute_next(call, &report)) continue;
    end_call(call);
    return 1;
}
