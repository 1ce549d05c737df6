// Calls: products whose blocks are computed by the caller and by threads of a pool.
//
// A call has one part at a time. A thread that finds no block left takes the next part while the others
// finish their blocks. One lock guards all shared state; it is held for nanoseconds, and a block takes a
// thousand times as long. A waiting thread spins first, because most waits are short, and then sleeps.
//
// Threads wake up as a flat tree: the caller wakes some and begins its own block, and each woken thread
// wakes as many others. On a virtual machine it takes a thread 0.1 ms or more to wake up, and some µs to
// wake another. So with 16 threads two levels are faster than four, and than one caller that wakes all.
#include "calls.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// A block in progress.
typedef struct {
    int64_t terms;  // 0 while there is none
    int64_t begun;
    int64_t row_start, row_stop;  // of C
} Running;

struct Call {
    Task task;  // first, because helpers get its address
    Pool* pool;
    pthread_mutex_t lock;
    Blas blas;
    Product product;
    Taker taker;
    int64_t key;
    int most, summoned;  // helpers: limit, and requested so far
    int users;           // helpers at work now
    int joined;          // helpers that ever joined
    int taking, ended;
    int64_t first_row;
    int64_t taken_start, taken_stop;  // rows of all parts
    char* sums;
    float* memory;  // of each thread, for bfloat16
    Block* blocks;  // of the current part
    int64_t count, left;
    int64_t done_terms, done_nanoseconds, told_terms;
    Running running[];  // the caller's, then those of the helpers
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

static unsigned read_changes(const Call* call) { return read_word(find_changes(call->pool)); }

// Release the lock and wait for a change after `seen`.
static void wait_for_change(Call* call, unsigned seen)
{
    unlock(call);
    await_word(find_changes(call->pool), seen);
    lock(call);
}

static void announce_change(Call* call) { change_word(find_changes(call->pool), EVERYONE); }

// Rows left of the blocks in progress, at the average pace of finished blocks.
static double count_rows_in_progress(const Call* call)
{
    const int64_t now = read_clock();
    const double pace = call->done_nanoseconds ? (double)call->done_terms / call->done_nanoseconds : 0;
    double terms = 0;
    for (int i = 0; i <= call->joined; ++i) {
        const Running* running = &call->running[i];
        const double left = running->terms - pace * (now - running->begun);
        if (running->terms && left > 0) terms += left;
    }
    return terms / ((double)call->product.n * call->product.k);
}

// Report the rows taken, and which of them may still be written: from the first to the last row of blocks
// in progress or not begun.
static void report_rows(const Call* call, Report* report)
{
    int64_t start = INT64_MAX, stop = 0;
    for (int i = 0; i <= call->joined; ++i) {
        const Running* running = &call->running[i];
        if (running->terms && running->row_start < start) start = running->row_start;
        if (running->terms && running->row_stop > stop) stop = running->row_stop;
    }
    if (call->left > 0) {  // blocks are in the order of their rows
        const int64_t first = call->first_row + call->blocks[call->count - call->left].row_start;
        const int64_t last = call->first_row + call->blocks[call->count - 1].row_stop;
        if (first < start) start = first;
        if (last > stop) stop = last;
    }
    report->taken_start = call->taken_start;
    report->taken_stop = call->taken_stop;
    report->open_start = start < stop ? start : call->taken_stop;
    report->open_stop = start < stop ? stop : call->taken_stop;
}

// Compute the next block, without the lock.
static void compute_block(Call* call, Running* running)
{
    const int64_t index = call->count - call->left--;
    const Block block = call->blocks[index];
    const int64_t first_row = call->first_row;
    const int64_t item = call->product.kind == BFLOATS ? (int64_t)sizeof(float) : call->product.item;  // of sums
    const int64_t elements = (block.row_stop - block.row_start) * (block.column_stop - block.column_start);
    char* sum = call->sums == NULL ? NULL : call->sums + index * elements * item;
    running->terms = elements * (block.depth_stop - block.depth_start);
    running->begun = read_clock();
    running->row_start = first_row + block.row_start;
    running->row_stop = first_row + block.row_stop;
    unlock(call);
    const int64_t thread = running - call->running;
    float* const memory = call->memory == NULL ? NULL : call->memory + thread * MEMORY_PARTS * TEMPORARY_ELEMENTS;
    multiply_block(&call->blas, &call->product, &block, first_row, sum, memory);
    const int64_t now = read_clock();
    lock(call);
    call->done_terms += running->terms;
    call->done_nanoseconds += now - running->begun;
    running->terms = 0;
}

static void have_part_taken(Call* call)
{
    const double rows = count_rows_in_progress(call);
    call->taking = 1;
    unlock(call);
    const int taken = call->taker(call->key, rows);
    lock(call);
    if (taken) return;
    call->ended = 1;
    announce_change(call);
}

// Run by each pool thread that joins a call.
static void help_call(Task* task)
{
    Call* const call = (Call*)task;
    call_others(call->pool, task, WOKEN);
    lock(call);
    ++call->users;
    Running* const running = &call->running[++call->joined];
    for (;;) {
        const unsigned seen = read_changes(call);  // read before is_closing, so no change is missed
        if (is_closing(call->pool)) break;
        if (call->left > 0) {
            compute_block(call, running);
        } else if (call->ended) {
            break;
        } else if (!call->taking) {
            have_part_taken(call);
        } else {
            wait_for_change(call, seen);
        }
    }
    if (--call->users == 0) announce_change(call);
    unlock(call);
}

Call* begin_call(
    Pool* pool, const Blas* blas, const Product* product, int helpers, Taker taker, int64_t key)
{
    Call* call = calloc(1, sizeof(Call) + (helpers + 1) * sizeof(Running));
    if (call == NULL) return NULL;
    *call = (Call){
        .task.help = help_call, .pool = pool, .blas = *blas, .product = *product, .most = helpers,
        .taker = taker, .key = key,
    };
    if (product->kind == BFLOATS) {
        call->memory = malloc((helpers + 1) * MEMORY_PARTS * TEMPORARY_ELEMENTS * sizeof(float));
        if (call->memory == NULL) {
            free(call);
            return NULL;
        }
    }
    pthread_mutex_init(&call->lock, NULL);
    offer_task(pool, &call->task);
    return call;
}

int add_part(Call* call, int64_t first_row, char* sums, const Block* blocks, int64_t count, int last)
{
    Block* copied = malloc(count * sizeof(Block));
    if (copied == NULL) return 0;
    memcpy(copied, blocks, count * sizeof(Block));
    lock(call);
    free(call->blocks);
    call->blocks = copied;
    call->first_row = first_row;
    const int64_t stop = first_row + blocks[count - 1].row_stop;
    if (call->taken_start == call->taken_stop) {
        call->taken_start = first_row;
        call->taken_stop = stop;
    }
    if (first_row < call->taken_start) call->taken_start = first_row;
    if (stop > call->taken_stop) call->taken_stop = stop;
    call->sums = sums;
    call->count = count;
    call->left = call->ended ? 0 : count;  // the caller may have given up meanwhile
    call->taking = 0;
    const int wanted = (count - 1 < call->most ? (int)count - 1 : call->most) - call->summoned;
    if (wanted > 0 && !call->ended) {
        call->summoned += wanted;
        atomic_fetch_add(&call->task.places, wanted);
    }
    if (last) call->ended = 1;
    announce_change(call);
    unlock(call);
    if (atomic_load(&call->task.places) > 0) clear_core(call->pool);
    call_helpers(call->pool, &call->task, WOKEN);
    return 1;
}

int multiply_at_once(
    Pool* pool, const Blas* blas, const Product* product, int helpers, char* sums, const Block* blocks,
    int64_t count)
{
    Call* const call = begin_call(pool, blas, product, helpers, NULL, 0);
    if (call == NULL) return 0;
    const int begun = add_part(call, 0, sums, blocks, count, 1);
    Report report;
    while (begun && compute_next(call, &report) != OVER) continue;
    end_call(call);
    return begun;
}

void end_parts(Call* call)
{
    lock(call);
    call->taking = 0;
    call->ended = 1;
    announce_change(call);
    unlock(call);
}

int compute_next(Call* call, Report* report)
{
    int state = ON;
    lock(call);
    while (call->left == 0 && (call->ended ? call->users > 0 : call->taking)) {
        wait_for_change(call, read_changes(call));
    }
    if (call->left > 0) {
        compute_block(call, &call->running[0]);
    } else if (call->ended) {
        state = OVER;
    } else {
        call->taking = 1;
        report->rows_in_progress = count_rows_in_progress(call);
        state = TAKE;
    }
    report->terms = call->done_terms - call->told_terms;
    report_rows(call, report);
    call->told_terms = call->done_terms;
    unlock(call);
    return state;
}

void end_call(Call* call)
{
    lock(call);
    call->ended = 1;
    call->left = 0;
    announce_change(call);  // wakes helpers that wait for a part
    while (call->users > 0) wait_for_change(call, read_changes(call));
    unlock(call);
    withdraw_task(&call->task);
    pthread_mutex_destroy(&call->lock);
    free(call->blocks);
    free(call->memory);
    free(call);
}
