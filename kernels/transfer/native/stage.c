// A stage: one direction between the caller's memory and the device (ways.h), with a thread of its own
// that walks through one matrix after the other. A thread of Python's would wait for the interpreter's
// lock several times for each.
//
// One thread at a time asks a stage, in the context that it was opened in.
#include "driver.h"
#include "ways.h"

#include <pthread.h>
#include <stdlib.h>

// Of a small product everything waits for its first transfer and its last copy.
enum { SMALL_PIECE_BYTES = 2 << 20 };

// A matrix that is to be copied, and what of the stream's comes before and behind it.
typedef struct Errand {
    Way way;
    int inwards;
    void* after;  // event that must have passed before; NULL for none
    void* start;  // events that are recorded around it
    void* end;
    int entered;  // whether what comes before it is in the stream
    int status;  // what the driver said of its transfers, or STOPPED
    struct Errand* next;
} Errand;

typedef struct {
    Slabs* slabs;
    void* context;
    pthread_t thread;
    pthread_mutex_t lock;  // of the errands and of what threads sleep for
    pthread_cond_t begun;
    pthread_cond_t ended;
    Errand* first;
    Errand* last;
    int closing;
    _Atomic int64_t asked;  // errands, counted from the first
    _Atomic int64_t done;
    _Atomic int64_t failed;  // the first one that failed; 0 for none
    int status;  // what the driver said then
} Stage;

// Enqueue what comes before the transfers of an errand.
static int enter(Stage* stage, Errand* errand)
{
    void* const stream = stage->slabs->stream;
    int status = 0;
    if (errand->entered) return 0;
    errand->entered = 1;
    if (errand->after != NULL) status = driver.await_in_stream(stream, errand->after, 0);
    return status != 0 ? status : driver.record_event(errand->start, stream);
}

static int send(Stage* stage, Errand* errand)
{
    int status = enter(stage, errand);
    if (status == 0) status = send_matrix(stage->slabs, &errand->way);
    return status != 0 ? status : driver.record_event(errand->end, stage->slabs->stream);
}

// Begin what transfers outwards there are slabs for; whether all of the errand's are begun, and well.
static int begin(Stage* stage, Errand* errand)
{
    Way* const way = &errand->way;
    if (errand->status != 0) return 0;
    if (way->begun == way->pieces) return 1;
    errand->status = enter(stage, errand);
    if (errand->status == 0) errand->status = begin_fetching(stage->slabs, way);
    if (errand->status != 0 || way->begun < way->pieces) return 0;
    errand->status = driver.record_event(errand->end, stage->slabs->stream);
    return errand->status == 0;
}

static Errand* find_next(Stage* stage, Errand* errand)
{
    pthread_mutex_lock(&stage->lock);
    Errand* const next = errand == NULL ? stage->first : errand->next;
    pthread_mutex_unlock(&stage->lock);
    return next;
}

// Begin transfers of an errand, which is the oldest one, and of those that wait behind it.
static void begin_ahead(Stage* stage, Errand* errand)
{
    if (!begin(stage, errand)) return;
    Errand* ahead = find_next(stage, NULL);
    while (ahead != NULL && !ahead->inwards && begin(stage, ahead)) ahead = find_next(stage, ahead);
}

static int fetch(Stage* stage, Errand* errand)
{
    Way* const way = &errand->way;
    while (way->fetched < way->pieces) {
        begin_ahead(stage, errand);
        if (errand->status == 0) errand->status = fetch_piece(stage->slabs, way);
        if (errand->status == 0 && atomic_load(&stage->slabs->stopping)) errand->status = STOPPED;
        if (errand->status != 0) break;
    }
    drop_pieces(stage->slabs, way);
    return errand->status;
}

// Behind a failure the others wait for its being told.
static int run_errand(Stage* stage, Errand* errand)
{
    if (atomic_load(&stage->failed) != 0 || atomic_load(&stage->slabs->stopping)) {
        drop_pieces(stage->slabs, &errand->way);
        return STOPPED;
    }
    return errand->inwards ? send(stage, errand) : fetch(stage, errand);
}

// Whether the counter reaches a number within the time that threads stay awake.
static int look_for(_Atomic int64_t* counter, int64_t number)
{
    const int64_t until = read_clock() + AWAKE_NANOSECONDS;
    while (atomic_load(counter) < number) {
        if (read_clock() > until) return 0;
        for (int i = 0; i < PAUSES; ++i) pause_briefly();
    }
    return 1;
}

static void finish_errand(Stage* stage, int status)
{
    pthread_mutex_lock(&stage->lock);
    const int64_t number = atomic_load(&stage->done) + 1;
    if (status != 0 && atomic_load(&stage->failed) == 0) {
        stage->status = status;
        atomic_store(&stage->failed, number);
    }
    atomic_store(&stage->done, number);
    pthread_cond_broadcast(&stage->ended);
    pthread_mutex_unlock(&stage->lock);
}

// The next errand; NULL at the end.
static Errand* take_errand(Stage* stage)
{
    look_for(&stage->asked, atomic_load(&stage->done) + 1);
    pthread_mutex_lock(&stage->lock);
    while (stage->first == NULL && !stage->closing) pthread_cond_wait(&stage->begun, &stage->lock);
    Errand* const errand = stage->first;
    if (errand != NULL) stage->first = errand->next;
    pthread_mutex_unlock(&stage->lock);
    return errand;
}

static void* walk(void* argument)
{
    Stage* stage = argument;
    const int status = driver.use_context(stage->context);
    Errand* errand;
    while ((errand = take_errand(stage)) != NULL) {
        finish_errand(stage, status != 0 ? status : run_errand(stage, errand));
        free(errand);
    }
    return NULL;
}

static int64_t run_alone(Stage* stage, Errand* errand)
{
    const int64_t number = atomic_fetch_add(&stage->asked, 1) + 1;
    finish_errand(stage, run_errand(stage, errand));
    return number;
}

static int64_t append_errand(Stage* stage, Errand* errand)
{
    pthread_mutex_lock(&stage->lock);
    *(stage->first == NULL ? &stage->first : &stage->last->next) = errand;
    stage->last = errand;
    const int64_t number = atomic_fetch_add(&stage->asked, 1) + 1;
    pthread_cond_signal(&stage->begun);
    pthread_mutex_unlock(&stage->lock);
    return number;
}

// Have a matrix copied, after those before it; returns its number, from 1, or 0 without memory.
// Inwards it is over when all transfers are enqueued, outwards when everything has arrived. Matrix and
// events must live until then.
//
// alone: by the calling thread, at once, in small pieces; no other errand may be under way.
EXPORTED int64_t ask_stage(
    Stage* stage, int inwards, int alone, void* after, void* start, void* end, char* host,
    int64_t host_row, int64_t host_column, unsigned long long device, int64_t device_pitch, int64_t rows,
    int64_t columns, int64_t item)
{
    Errand errand = {
        .way = {
            .host = host, .host_row = host_row, .host_column = host_column, .device = device,
            .device_pitch = device_pitch, .rows = rows, .columns = columns, .item = item,
        },
        .inwards = inwards, .after = after, .start = start, .end = end,
    };
    const int64_t slab_bytes = stage->slabs->slab_bytes;
    cut_way(&errand.way, alone ? least(slab_bytes, SMALL_PIECE_BYTES) : slab_bytes);
    if (alone) return run_alone(stage, &errand);
    Errand* kept = malloc(sizeof(Errand));
    if (kept == NULL) return 0;
    *kept = errand;
    return append_errand(stage, kept);
}

// Whether an errand is over.
EXPORTED int is_over(Stage* stage, int64_t number) { return atomic_load(&stage->done) >= number; }

// Wait until an errand is over: 0, or what the driver said of it or of one before it.
EXPORTED int await_errand(Stage* stage, int64_t number)
{
    look_for(&stage->done, number);
    pthread_mutex_lock(&stage->lock);
    while (atomic_load(&stage->done) < number) pthread_cond_wait(&stage->ended, &stage->lock);
    const int64_t failed = atomic_load(&stage->failed);
    const int status = failed != 0 && failed <= number ? stage->status : 0;
    pthread_mutex_unlock(&stage->lock);
    return status;
}

// Have so many of the pool's threads help from now on.
EXPORTED void limit_helpers(Stage* stage, int helpers) { atomic_store(&stage->slabs->helpers, helpers); }

// Wait for all errands and their transfers: 0, or what the driver said of the first that failed.
EXPORTED int finish_stage(Stage* stage)
{
    const int status = await_errand(stage, atomic_load(&stage->asked));
    const int later = await_slabs(stage->slabs);
    return status != 0 ? status : later;
}

// Drop what has not begun, wait for what has, and forget what failed.
EXPORTED void abandon_errands(Stage* stage)
{
    atomic_store(&stage->slabs->stopping, 1);
    await_errand(stage, atomic_load(&stage->asked));
    atomic_store(&stage->failed, 0);
    atomic_store(&stage->slabs->stopping, 0);
}

static void free_stage(Stage* stage)
{
    if (stage->slabs != NULL) close_slabs(stage->slabs);
    pthread_mutex_destroy(&stage->lock);
    pthread_cond_destroy(&stage->begun);
    pthread_cond_destroy(&stage->ended);
    free(stage);
}

// One direction, with slabs whose memory stays the caller's; NULL if there is no driver, no memory or
// no thread.
EXPORTED Stage* open_stage(Pool* pool, void* stream, void* const* memories, int slabs, int64_t slab_bytes)
{
    if (load_driver() != 0) return NULL;
    Stage* stage = calloc(1, sizeof(Stage));
    if (stage == NULL) return NULL;
    pthread_mutex_init(&stage->lock, NULL);
    pthread_cond_init(&stage->begun, NULL);
    pthread_cond_init(&stage->ended, NULL);
    stage->slabs = open_slabs(pool, stream, memories, slabs, slab_bytes);
    if (stage->slabs != NULL && driver.find_context(&stage->context) == 0 &&
        pthread_create(&stage->thread, NULL, walk, stage) == 0) {
        return stage;
    }
    free_stage(stage);
    return NULL;
}

// End the thread; no errand may be under way.
EXPORTED void close_stage(Stage* stage)
{
    pthread_mutex_lock(&stage->lock);
    stage->closing = 1;
    pthread_cond_signal(&stage->begun);
    pthread_mutex_unlock(&stage->lock);
    pthread_join(stage->thread, NULL);
    free_stage(stage);
}
