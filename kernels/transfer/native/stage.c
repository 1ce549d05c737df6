// A stage: copies in one direction between pageable memory and the device (slabs.h), by a thread of its
// own that takes one matrix after the other. A Python thread would wait for the interpreter's lock
// several times for each matrix.
//
// Only one thread at a time may call a stage, in the context that it was opened in.
#include "driver.h"
#include "slabs.h"

#include <pthread.h>
#include <stdlib.h>

// A matrix to copy, and the events around its transfers.
typedef struct Request {
    MatrixCopy copy;
    int inwards;
    void* after;  // event to wait for; NULL for none
    void* start;  // event to record before the transfers
    void* end;  // event to record after the transfers
    int entered;  // whether the wait and the start event are in the stream
    int status;  // 0, a CUresult, or STOPPED
    struct Request* next;
} Request;

typedef struct {
    Slabs* slabs;
    void* context;
    pthread_t thread;
    pthread_mutex_t lock;  // guards the list of requests and the conditions
    pthread_cond_t begun;
    pthread_cond_t ended;
    Request* first;
    Request* last;
    int closing;
    _Atomic int64_t asked;  // number of requests so far
    _Atomic int64_t done;  // number of requests done
    _Atomic int64_t failed;  // number of the first request that failed; 0 for none
    int status;  // of that request
} Stage;

// Enqueue the wait and the start event of a request.
static int enter(Stage* stage, Request* request)
{
    void* const stream = stage->slabs->stream;
    int status = 0;
    if (request->entered) return 0;
    request->entered = 1;
    if (request->after != NULL) status = driver.await_in_stream(stream, request->after, 0);
    return status != 0 ? status : driver.record_event(request->start, stream);
}

static int send(Stage* stage, Request* request)
{
    int status = enter(stage, request);
    if (status == 0) status = send_matrix(stage->slabs, &request->copy);
    return status != 0 ? status : driver.record_event(request->end, stage->slabs->stream);
}

// Begin transfers from the device into free slabs. Returns whether all of the request's transfers have
// begun without an error.
static int begin(Stage* stage, Request* request)
{
    MatrixCopy* const copy = &request->copy;
    if (request->status != 0) return 0;
    if (copy->begun == copy->pieces) return 1;
    request->status = enter(stage, request);
    if (request->status == 0) request->status = begin_fetching(stage->slabs, copy);
    if (request->status != 0 || copy->begun < copy->pieces) return 0;
    request->status = driver.record_event(request->end, stage->slabs->stream);
    return request->status == 0;
}

static Request* find_next(Stage* stage, Request* request)
{
    pthread_mutex_lock(&stage->lock);
    Request* const next = request == NULL ? stage->first : request->next;
    pthread_mutex_unlock(&stage->lock);
    return next;
}

// Begin transfers of the oldest request, then of the requests after it.
static void begin_ahead(Stage* stage, Request* request)
{
    if (!begin(stage, request)) return;
    Request* ahead = find_next(stage, NULL);
    while (ahead != NULL && !ahead->inwards && begin(stage, ahead)) ahead = find_next(stage, ahead);
}

static int fetch(Stage* stage, Request* request)
{
    MatrixCopy* const copy = &request->copy;
    while (copy->fetched < copy->pieces) {
        begin_ahead(stage, request);
        if (request->status == 0) request->status = fetch_piece(stage->slabs, copy);
        if (request->status == 0 && atomic_load(&stage->slabs->stopping)) request->status = STOPPED;
        if (request->status != 0) break;
    }
    drop_pieces(stage->slabs, copy);
    return request->status;
}

// After a failure, later requests are dropped until abandon_copies clears it.
static int run_request(Stage* stage, Request* request)
{
    if (atomic_load(&stage->failed) != 0 || atomic_load(&stage->slabs->stopping)) {
        drop_pieces(stage->slabs, &request->copy);
        return STOPPED;
    }
    return request->inwards ? send(stage, request) : fetch(stage, request);
}

// Spin until the counter reaches a number; 0 after COPIERS_AWAKE_NANOSECONDS.
static int look_for(_Atomic int64_t* counter, int64_t number)
{
    const int64_t until = read_clock() + COPIERS_AWAKE_NANOSECONDS;
    while (atomic_load(counter) < number) {
        if (read_clock() > until) return 0;
        for (int i = 0; i < PAUSES; ++i) pause_briefly();
    }
    return 1;
}

static void finish_request(Stage* stage, int status)
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

// Wait for the next request; NULL when the stage is closed.
static Request* take_request(Stage* stage)
{
    look_for(&stage->asked, atomic_load(&stage->done) + 1);
    pthread_mutex_lock(&stage->lock);
    while (stage->first == NULL && !stage->closing) pthread_cond_wait(&stage->begun, &stage->lock);
    Request* const request = stage->first;
    if (request != NULL) stage->first = request->next;
    pthread_mutex_unlock(&stage->lock);
    return request;
}

static void* walk(void* argument)
{
    Stage* stage = argument;
    const int status = driver.use_context(stage->context);
    Request* request;
    while ((request = take_request(stage)) != NULL) {
        finish_request(stage, status != 0 ? status : run_request(stage, request));
        free(request);
    }
    return NULL;
}

static int64_t run_alone(Stage* stage, Request* request)
{
    const int64_t number = atomic_fetch_add(&stage->asked, 1) + 1;
    finish_request(stage, run_request(stage, request));
    return number;
}

static int64_t append_request(Stage* stage, Request* request)
{
    pthread_mutex_lock(&stage->lock);
    *(stage->first == NULL ? &stage->first : &stage->last->next) = request;
    stage->last = request;
    const int64_t number = atomic_fetch_add(&stage->asked, 1) + 1;
    pthread_cond_signal(&stage->begun);
    pthread_mutex_unlock(&stage->lock);
    return number;
}

// Queue a copy; returns its number, from 1, or 0 without memory. To the device it is done when all
// transfers are enqueued, to the host when all bytes have arrived. Matrix and events must live until then.
//
// alone: the calling thread copies at once; no other request may be under way. Pieces have half a slab then,
// because a small product waits for its first transfer and its last copy. padding, streams: as in `MatrixCopy`.
EXPORTED int64_t request_copy(
    Stage* stage, int inwards, int alone, void* after, void* start, void* end, char* host,
    int64_t host_row, int64_t host_column, unsigned long long device, int64_t device_pitch, int64_t padding,
    int64_t rows, int64_t columns, int64_t item, int streams)
{
    Request request = {
        .copy = {
            .host = host, .host_row = host_row, .host_column = host_column, .device = device,
            .device_pitch = device_pitch, .padding = padding, .rows = rows, .columns = columns, .item = item,
            .streams = streams,
        },
        .inwards = inwards, .after = after, .start = start, .end = end,
    };
    const int64_t slab_bytes = stage->slabs->slab_bytes;
    cut_matrix(&request.copy, alone ? slab_bytes / 2 : slab_bytes);
    if (alone) return run_alone(stage, &request);
    Request* kept = malloc(sizeof(Request));
    if (kept == NULL) return 0;
    *kept = request;
    return append_request(stage, kept);
}

// Whether a request is done.
EXPORTED int is_done(Stage* stage, int64_t number) { return atomic_load(&stage->done) >= number; }

// Wait until a request is done: returns the error of it or of an earlier one, or 0.
EXPORTED int await_copy(Stage* stage, int64_t number)
{
    look_for(&stage->done, number);
    pthread_mutex_lock(&stage->lock);
    while (atomic_load(&stage->done) < number) pthread_cond_wait(&stage->ended, &stage->lock);
    const int64_t failed = atomic_load(&stage->failed);
    const int status = failed != 0 && failed <= number ? stage->status : 0;
    pthread_mutex_unlock(&stage->lock);
    return status;
}

// Set how many of the pool's threads help from now on.
EXPORTED void limit_helpers(Stage* stage, int helpers) { atomic_store(&stage->slabs->helpers, helpers); }

// Wait for all requests and their transfers: returns the first error, or 0.
EXPORTED int finish_stage(Stage* stage)
{
    const int status = await_copy(stage, atomic_load(&stage->asked));
    const int later = await_slabs(stage->slabs);
    return status != 0 ? status : later;
}

// Drop requests that have not begun, wait for the others, and clear the error.
EXPORTED void abandon_copies(Stage* stage)
{
    atomic_store(&stage->slabs->stopping, 1);
    await_copy(stage, atomic_load(&stage->asked));
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

// Open a stage; the memory of the slabs remains the caller's. Returns NULL without a driver, memory or
// thread.
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

// End the thread; no request may be under way.
EXPORTED void close_stage(Stage* stage)
{
    pthread_mutex_lock(&stage->lock);
    stage->closing = 1;
    pthread_cond_signal(&stage->begun);
    pthread_mutex_unlock(&stage->lock);
    pthread_join(stage->thread, NULL);
    free_stage(stage);
}
