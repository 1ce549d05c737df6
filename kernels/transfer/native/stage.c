// A stage: copies between pageable memory and the device in both directions, by threads of a pool, or by
// the thread that waits for a copy.
//
// Each thread takes one piece after the other (pieces.h), and a slab of its own for it. So a thread that has
// lost its core delays only its own piece. All transfers of a direction are in one stream, in any order
// within a matrix. Transfers from the device run ahead into free slabs, also of the next matrices.
//
// The driver has one lock, and a thread that waits for it sleeps. So one thread at a time enqueues the transfers
// of a direction, all that are ready, and the others go on copying.
//
// One lock guards all state. It is locked for nanoseconds (a piece takes 0.1 ms): never during a copy or a call of
// the driver.
//
// Only one thread at a time may call a stage, in the context that it was opened in.
#include "stage.h"

#include "driver.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    LOOK_NANOSECONDS = 3000,  // between two queries of the same events: each takes the driver's lock; chosen
    BATCH = 4,  // most transfers enqueued between two locks of the stage; chosen
};

// Matrices to copy, and the events around their transfers.
typedef struct Request {
    MatrixCopy matrices[MOST_MATRICES];
    int64_t pieces;  // of all matrices, one after the other
    void* after;  // event to wait for; NULL for none
    void* start;  // event to record before the transfers; NULL for none
    void* end;  // event to record after the transfers; NULL for none
    atomic_int entered;  // whether the wait and the start event are in the stream
    int64_t sent;  // pieces whose transfer is in the stream, for the thread that enqueues
    int waited;  // whether `after` is known to have passed
    int64_t begun;  // pieces that a thread has taken
    int64_t enqueued;  // pieces whose transfer is in the stream
    int64_t emptied;  // from the device: pieces copied from their slab
    int64_t number;  // in its direction, from 1
    struct Request* next;
} Request;

typedef enum { SPARE, TAKEN, FILLED, IN_TRANSIT, ARRIVED } State;

typedef struct Slab {
    char* memory;
    void* end;  // an event
    State state;
    int64_t number;  // of its last transfer, in the stream's order
    struct Slab* last;  // whose event is recorded after that transfer: of this slab, or of a later one
    Request* request;  // whose piece is in it
    int64_t piece;
} Slab;

// A direction: to the device, or from it.
typedef struct {
    void* stream;
    int enqueuing;  // whether a thread enqueues transfers
    Slab* slabs;
    int count;
    int64_t transfers;  // enqueued so far
    int64_t looked;  // when the events of slabs in transit were last queried
    int looking;  // whether a thread queries them now
    Request* first;  // requests that are not done, the oldest first
    Request* last;
    _Atomic int64_t asked;  // number of requests so far
    _Atomic int64_t done;  // number of requests done; they end in order
} Way;

struct Stage {
    Task task;  // first, because helpers get its address
    Pool* pool;
    void* context;
    pthread_mutex_t lock;
    Way ways[2];  // from the device, to the device
    int64_t slab_bytes;
    int working;  // threads with a piece
    atomic_int helping;  // pool threads that look for pieces
    int stopping;
    int status;  // the first error, a CUresult
    atomic_int failed;
};

// What a thread does: copy between a slab and the caller's memory, or enqueue transfers from the device.
typedef struct {
    Slab* slab;  // NULL to enqueue
    int inwards;
} Job;

// The matrix of a piece; `piece` becomes its index in that matrix.
static const MatrixCopy* find_matrix(const Request* request, int64_t* piece)
{
    const MatrixCopy* matrix = request->matrices;
    while (*piece >= matrix->pieces) *piece -= matrix++->pieces;
    return matrix;
}

// Remember the first error. With the lock.
static void note_failure(Stage* stage, int status)
{
    if (status == 0 || atomic_load(&stage->failed)) return;
    stage->status = status;
    atomic_store(&stage->failed, 1);
}

// Spins first, because others unlock it after a moment, sooner than a sleeper would wake up.
static void lock(Stage* stage)
{
    for (int i = 0; i < PAUSES; ++i) {
        if (pthread_mutex_trylock(&stage->lock) == 0) return;
        pause_briefly();
    }
    pthread_mutex_lock(&stage->lock);
}

static void unlock(Stage* stage) { pthread_mutex_unlock(&stage->lock); }

// Ask the driver about an event; the lock is released meanwhile.
static int query_unlocked(Stage* stage, void* event)
{
    unlock(stage);
    const int status = driver.query_event(event);
    lock(stage);
    if (status != NOT_READY) note_failure(stage, status);
    return status;
}

// The first request that has pieces to begin; NULL if there is none.
static Request* find_open(Way* way)
{
    Request* request = way->first;
    while (request != NULL && request->begun == request->pieces) request = request->next;
    return request;
}

static int needs_wait(const Request* request)
{
    return request->after != NULL && !request->waited && !atomic_load(&request->entered);
}

// Query which slabs in transit have arrived, and whether the next request may begin: one thread at a time, and at
// most every LOOK_NANOSECONDS. With the lock, which is released meanwhile.
static void look(Stage* stage, Way* way)
{
    const int64_t now = read_clock();
    if (way->looking || now - way->looked < LOOK_NANOSECONDS) return;
    way->looking = 1;
    for (;;) {
        Slab* oldest = NULL;
        for (Slab* slab = way->slabs; slab < way->slabs + way->count; ++slab) {
            if (slab->state == IN_TRANSIT && (oldest == NULL || slab->number < oldest->number)) oldest = slab;
        }
        if (oldest == NULL) break;
        const int64_t until = oldest->last->number;
        if (query_unlocked(stage, oldest->last->end) != 0) break;
        for (Slab* slab = way->slabs; slab < way->slabs + way->count; ++slab) {
            if (slab->state != IN_TRANSIT || slab->number > until) continue;
            slab->state = way == &stage->ways[0] ? ARRIVED : SPARE;
        }
    }
    Request* const next = find_open(way);
    if (next != NULL && needs_wait(next)) {
        const int64_t number = next->number;
        const int passed = query_unlocked(stage, next->after) == 0;
        Request* const still = find_open(way);
        if (still != NULL && still->number == number) still->waited = passed;
    }
    way->looked = read_clock();
    way->looking = 0;
}

static Slab* find_slab(Way* way, State state)
{
    Slab* found = NULL;
    for (Slab* slab = way->slabs; slab < way->slabs + way->count; ++slab) {
        if (slab->state == state && (found == NULL || slab->number < found->number)) found = slab;
    }
    return found;
}

// Whether the transfers of a request may be enqueued. Its wait for an event would also delay transfers of earlier
// requests that are not enqueued yet, and the event may depend on those.
static int may_enter(Way* way, const Request* request)
{
    if (!needs_wait(request)) return 1;
    const Request* earlier = way->first;
    while (earlier != request && earlier->enqueued == earlier->pieces) earlier = earlier->next;
    return earlier == request;
}

// Take the next piece that has not begun, with a spare slab; NULL if there is none.
static Slab* take_piece(Way* way)
{
    Request* const request = find_open(way);
    Slab* const slab = find_slab(way, SPARE);
    if (request == NULL || slab == NULL || !may_enter(way, request)) return NULL;
    slab->state = TAKEN;
    slab->request = request;
    slab->piece = request->begun++;
    return slab;
}

// Whether transfers from the device are to be enqueued, and no thread does so.
static int may_fetch(Way* way)
{
    const Request* const request = find_open(way);
    return !way->enqueuing && request != NULL && find_slab(way, SPARE) != NULL && may_enter(way, request);
}

// Take something to do: results first, as callers wait for them. With the lock.
static int choose_job(Stage* stage, Job* job)
{
    Way *out = &stage->ways[0], *in = &stage->ways[1];
    if (!stage->stopping && out->first != NULL) look(stage, out);
    if (!stage->stopping && in->first != NULL && find_slab(in, SPARE) == NULL) look(stage, in);
    if (stage->stopping || atomic_load(&stage->failed)) return 0;
    *job = (Job){find_slab(out, ARRIVED), 0};
    if (job->slab != NULL) {
        job->slab->state = TAKEN;
    } else if (!may_fetch(out)) {
        *job = (Job){take_piece(in), 1};
        if (job->slab == NULL) {
            if (in->first != NULL) look(stage, in);  // whether what it waits for has passed
            return 0;
        }
    }
    ++stage->working;
    return 1;
}

// Whether a thread would find something to do now. With the lock.
static int has_jobs(Stage* stage)
{
    Way* const in = &stage->ways[1];
    if (find_slab(&stage->ways[0], ARRIVED) != NULL) return 1;
    return in->first != NULL && in->last->begun < in->last->pieces && find_slab(in, SPARE) != NULL;
}

static int take_job(Stage* stage, Job* job)
{
    lock(stage);
    const int taken = choose_job(stage, job);
    const int invites = taken && atomic_load(&stage->task.places) <= 0 && has_jobs(stage);
    if (invites) atomic_store(&stage->task.places, EVERYONE);
    unlock(stage);
    if (invites) call_helpers(stage->pool, &stage->task, WOKEN);
    return taken;
}

// Remove the requests at the head that are done. With the lock.
static void drop_done(Way* way, int inwards)
{
    for (Request* first; (first = way->first) != NULL;) {
        if ((inwards ? first->enqueued : first->emptied) < first->pieces) return;
        way->first = first->next;
        free(first);
        atomic_fetch_add(&way->done, 1);
    }
}

// Collect slabs whose transfers can be enqueued. With the lock.
static int collect(Stage* stage, Way* way, Slab** batch)
{
    const int inwards = way == &stage->ways[1];
    int count = 0;
    if (stage->stopping || atomic_load(&stage->failed)) return 0;
    while (count < BATCH) {
        Slab* const slab = inwards ? find_slab(way, FILLED) : take_piece(way);
        if (slab == NULL) break;
        slab->state = TAKEN;
        batch[count++] = slab;
    }
    return count;
}

static int send_slab(Way* way, Slab* slab)
{
    Request* const request = slab->request;
    int status = 0;
    if (!atomic_exchange(&request->entered, 1)) {
        if (request->after != NULL) status = driver.await_in_stream(way->stream, request->after, 0);
        if (status == 0 && request->start != NULL) status = driver.record_event(request->start, way->stream);
    }
    int64_t piece = slab->piece;
    const MatrixCopy* const matrix = find_matrix(request, &piece);
    if (status == 0) status = transfer_piece(matrix, piece, slab->memory, way->stream);
    if (status == 0 && ++request->sent == request->pieces && request->end != NULL) {
        status = driver.record_event(request->end, way->stream);
    }
    return status;
}

// To the device, one event after the batch is enough: then all of its slabs are spare.
static int send_batch(Way* way, Slab** batch, int count, int inwards)
{
    int status = 0;
    for (int i = 0; i < count && status == 0; ++i) {
        Slab* const last = batch[i]->last = inwards ? batch[count - 1] : batch[i];
        status = send_slab(way, batch[i]);
        if (status == 0 && last == batch[i]) status = driver.record_event(last->end, way->stream);
    }
    return status;
}

// The transfers of a batch are enqueued, or have failed. With the lock.
static void note_batch(Stage* stage, Way* way, Slab** batch, int count, int status)
{
    note_failure(stage, status);
    for (int i = 0; i < count; ++i) {
        batch[i]->state = status == 0 ? IN_TRANSIT : SPARE;
        batch[i]->number = ++way->transfers;
        if (status == 0) ++batch[i]->request->enqueued;
    }
    if (status == 0) drop_done(way, way == &stage->ways[1]);
}

// Enqueue all transfers that are ready, unless another thread does so. With the lock, which is released meanwhile.
static void enqueue_ready(Stage* stage, Way* way)
{
    Slab* batch[BATCH];
    int count;
    if (way->enqueuing) return;
    way->enqueuing = 1;
    while ((count = collect(stage, way, batch)) > 0) {
        unlock(stage);
        const int status = send_batch(way, batch, count, way == &stage->ways[1]);
        lock(stage);
        note_batch(stage, way, batch, count, status);
    }
    way->enqueuing = 0;
}

static void do_job(Stage* stage, const Job* job)
{
    Slab* const slab = job->slab;
    Way* const way = &stage->ways[job->inwards];
    if (slab != NULL) {
        int64_t piece = slab->piece;
        const MatrixCopy* const matrix = find_matrix(slab->request, &piece);
        copy_piece(matrix, piece, slab->memory);
    }
    lock(stage);
    if (slab == NULL) {
        enqueue_ready(stage, way);
    } else if (job->inwards) {
        slab->state = FILLED;
        enqueue_ready(stage, way);
    } else {
        slab->state = SPARE;
        ++slab->request->emptied;
        drop_done(way, 0);
    }
    --stage->working;
    unlock(stage);
}

// Poll until there is a job, the time is over, or another thread has used the core: returns whether there is a job.
static int look_for_job(Stage* stage, Job* job, int64_t nanoseconds)
{
    const int64_t until = read_clock() + find_patience(nanoseconds);
    while (!atomic_load(&stage->failed)) {
        if (take_job(stage, job)) return 1;
        for (int i = 0; i < PAUSES; ++i) pause_briefly();
        if (read_clock() >= until || yield_core()) break;
    }
    return 0;
}

// Whether a thread without work may leave. If work comes later, threads are woken again.
static int leave(Stage* stage, Job* job)
{
    lock(stage);
    const int stays = choose_job(stage, job);
    if (!stays) atomic_store(&stage->task.places, 0);
    unlock(stage);
    return !stays;
}

// Run by each pool thread that joins: it leaves when it finds nothing to do for a moment.
static void help_stage(Task* task)
{
    Stage* const stage = (Stage*)task;
    Job job;
    call_others(stage->pool, task, WOKEN);
    if (driver.use_context(stage->context) != 0) return;
    atomic_fetch_add(&stage->helping, 1);
    while (!is_closing(stage->pool)) {
        if (!look_for_job(stage, &job, AWAKE_NANOSECONDS) && leave(stage, &job)) break;
        do_job(stage, &job);
    }
    atomic_fetch_sub(&stage->helping, 1);
}

int64_t request_copies(
    Stage* stage, const MatrixCopy* matrices, int count, void* after, void* start, void* end)
{
    const int inwards = matrices[0].inwards;
    Request* const request = calloc(1, sizeof(Request));
    if (request == NULL) return 0;
    *request = (Request){.after = after, .start = start, .end = end};
    for (int i = 0; i < count; ++i) {
        request->matrices[i] = matrices[i];
        cut_matrix(&request->matrices[i], stage->slab_bytes);
        request->pieces += request->matrices[i].pieces;
    }
    Way* const way = &stage->ways[inwards];
    lock(stage);
    *(way->first == NULL ? &way->first : &way->last->next) = request;
    way->last = request;
    const int64_t number = request->number = atomic_fetch_add(&way->asked, 1) + 1;
    atomic_store(&stage->task.places, EVERYONE);
    unlock(stage);
    call_helpers(stage->pool, &stage->task, WOKEN);
    return number;
}

// The caller helps only if no other thread copies, or on a crowded machine: while it copies it launches no kernels.
int await_copy(Stage* stage, int inwards, int64_t number)
{
    const struct timespec nap = {0, NAP_NANOSECONDS};
    Way* const way = &stage->ways[inwards];
    int64_t until = read_clock() + find_patience(COPIERS_AWAKE_NANOSECONDS);
    while (atomic_load(&way->done) < number) {
        Job job;
        if (atomic_load(&stage->failed)) return stage->status;
        if ((atomic_load(&stage->helping) == 0 || find_crowd() != QUIET) && take_job(stage, &job)) {
            do_job(stage, &job);
            until = read_clock() + find_patience(COPIERS_AWAKE_NANOSECONDS);
        } else if (read_clock() < until) {
            for (int i = 0; i < PAUSES; ++i) pause_briefly();
        } else {
            nanosleep(&nap, NULL);
        }
    }
    return 0;
}

// Wait until no slab has a transfer under way: returns the first error.
static int await_slabs(Stage* stage)
{
    int status = 0;
    for (int i = 0; i < 2; ++i) {
        for (Slab* slab = stage->ways[i].slabs; slab < stage->ways[i].slabs + stage->ways[i].count; ++slab) {
            const int one = slab->state == IN_TRANSIT ? await_event(slab->last->end) : 0;
            if (status == 0) status = one;
            slab->state = SPARE;
        }
    }
    return status;
}

// Wait for all requests and their transfers: returns the first error, or 0.
EXPORTED int finish_stage(Stage* stage)
{
    for (int inwards = 0; inwards < 2; ++inwards) {
        const int status = await_copy(stage, inwards, atomic_load(&stage->ways[inwards].asked));
        if (status != 0) return status;
    }
    lock(stage);
    const int status = await_slabs(stage);
    unlock(stage);
    return status;
}

// Drop all requests, wait for pieces and transfers under way, and clear the error.
EXPORTED void abandon_copies(Stage* stage)
{
    const struct timespec nap = {0, NAP_NANOSECONDS};
    lock(stage);
    stage->stopping = 1;
    while (stage->working > 0 || stage->ways[0].looking || stage->ways[1].looking) {
        unlock(stage);
        nanosleep(&nap, NULL);
        lock(stage);
    }
    for (int i = 0; i < 2; ++i) {
        Way* const way = &stage->ways[i];
        for (Request* first; (first = way->first) != NULL; free(first)) way->first = first->next;
        atomic_store(&way->done, atomic_load(&way->asked));
    }
    await_slabs(stage);
    stage->stopping = 0;
    stage->status = 0;
    atomic_store(&stage->failed, 0);
    unlock(stage);
}

static void free_way(Way* way)
{
    for (int i = 0; way->slabs != NULL && i < way->count; ++i) {
        if (way->slabs[i].end != NULL) driver.destroy_event(way->slabs[i].end);
    }
    free(way->slabs);
}

static void free_stage(Stage* stage)
{
    free_way(&stage->ways[0]);
    free_way(&stage->ways[1]);
    pthread_mutex_destroy(&stage->lock);
    free(stage);
}

static int open_way(Way* way, void* stream, char* memory, int slabs, int64_t slab_bytes)
{
    way->stream = stream;
    way->count = slabs;
    way->slabs = calloc(slabs, sizeof(Slab));
    for (int i = 0; way->slabs != NULL && i < slabs; ++i) {
        way->slabs[i].memory = memory + i * slab_bytes;
        if (driver.create_event(&way->slabs[i].end, UNTIMED) != 0) return -1;
    }
    return way->slabs == NULL ? -1 : 0;
}

// Open a stage with `slabs` slabs in each direction. Their memory remains the caller's; the first half is for copies
// from the device. Returns NULL without a driver or memory.
EXPORTED Stage* open_stage(
    Pool* pool, void* in_stream, void* out_stream, char* memory, int slabs, int64_t slab_bytes)
{
    if (load_driver() != 0) return NULL;
    Stage* const stage = calloc(1, sizeof(Stage));
    if (stage == NULL) return NULL;
    stage->pool = pool;
    stage->slab_bytes = slab_bytes;
    stage->task.help = help_stage;
    pthread_mutex_init(&stage->lock, NULL);
    if (open_way(&stage->ways[0], out_stream, memory, slabs, slab_bytes) != 0 ||
        open_way(&stage->ways[1], in_stream, memory + slabs * slab_bytes, slabs, slab_bytes) != 0 ||
        driver.find_context(&stage->context) != 0) {
        free_stage(stage);
        return NULL;
    }
    offer_task(pool, &stage->task);
    return stage;
}

// Close a stage; no request may be under way.
EXPORTED void close_stage(Stage* stage)
{
    atomic_store(&stage->task.places, 0);
    withdraw_task(&stage->task);
    free_stage(stage);
}
