// Matrices on their way between the caller's memory and the device: piece by piece through pinned slabs.
//
// Inwards a team of threads fills a slab, and its transfer follows; the slab is used again when that is
// done. Outwards transfers run ahead as far as there are slabs, and the team empties one after the
// other as they arrive. A stage has a thread of its own, which walks through one matrix after the
// other; a thread of Python's would wait for the interpreter's lock several times for each.
//
// The driver is called through its own library, with what CuPy made: its streams, events and the
// address of its memory. Who opens a stage must have the device's context.
#include "copies.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

typedef struct {
    size_t source_left, source_top;
    int source_kind;
    const void* source_host;
    unsigned long long source_device;
    void* source_array;
    size_t source_pitch;
    size_t target_left, target_top;
    int target_kind;
    void* target_host;
    unsigned long long target_device;
    void* target_array;
    size_t target_pitch;
    size_t row_bytes, rows;
} Copy2D;  // CUDA_MEMCPY2D

enum {
    ON_HOST = 1,  // CUmemorytype
    ON_DEVICE = 2,
    NOT_READY = 600,  // CUresult
    NO_DRIVER = -1,  // this file's own
    STOPPED = -2,
    UNTIMED = 2,  // CUevent_flags
    LINE_BYTES = 128,
    AWAKE_NANOSECONDS = 200000,  // a thread that waits looks so long before it sleeps
    NAP_NANOSECONDS = 20000,
    PAUSES = 32,  // between two looks
};

static struct {
    int (*find_context)(void** context);
    int (*use_context)(void* context);
    int (*await_in_stream)(void* stream, void* event, unsigned flags);
    int (*create_event)(void** event, unsigned flags);
    int (*destroy_event)(void* event);
    int (*record_event)(void* event, void* stream);
    int (*query_event)(void* event);
    int (*copy_in)(unsigned long long device, const void* host, size_t size, void* stream);
    int (*copy_out)(void* host, unsigned long long device, size_t size, void* stream);
    int (*copy_rows)(const Copy2D* copy, void* stream);
} driver;

typedef struct {
    char* memory;
    void* end;  // event behind its last transfer
    int busy;  // with that, for all that is known
} Slab;

// The part of a copy that a piece is: in rows and columns of the matrix.
typedef struct {
    int64_t top, left, rows, columns;
    int64_t pitch;  // bytes from one row to the next in the slab
} Piece;

// A matrix and where it lies on the device.
typedef struct {
    char* host;
    int64_t host_row, host_column;  // bytes from one element to the next
    unsigned long long device;
    int64_t device_pitch;  // bytes
    int64_t rows, columns, item;
    int64_t piece_rows, piece_columns, pieces_across, pieces, pitch;
} Way;

// A matrix that is to be copied, and what of the stream's comes before and behind it.
typedef struct Errand {
    Way way;
    int inwards;
    void* after;  // event that must have passed before; NULL for none
    void* start;  // events that are recorded around it
    void* end;
    struct Errand* next;
} Errand;

typedef struct {
    Team* team;
    void* stream;
    void* context;
    int64_t slab_bytes;
    int helpers;
    atomic_int stopping;
    pthread_t thread;
    pthread_mutex_t lock;  // of the errands and of what threads sleep for
    pthread_cond_t begun;
    pthread_cond_t ended;
    Errand* first;
    Errand* last;
    int closing;
    _Atomic int64_t asked;  // errands, counted from the first
    _Atomic int64_t done;
    int64_t failed;  // the first one that failed; 0 for none
    int status;  // what the driver said then
    int slabs;
    int next;
    Slab slab[];
} Stage;

static int load_driver(void)
{
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) return NO_DRIVER;
    const struct {
        void** function;
        const char* name;
    } functions[] = {
        {(void**)&driver.find_context, "cuCtxGetCurrent"},
        {(void**)&driver.use_context, "cuCtxSetCurrent"},
        {(void**)&driver.await_in_stream, "cuStreamWaitEvent"},
        {(void**)&driver.create_event, "cuEventCreate"},
        {(void**)&driver.destroy_event, "cuEventDestroy_v2"},
        {(void**)&driver.record_event, "cuEventRecord"},
        {(void**)&driver.query_event, "cuEventQuery"},
        {(void**)&driver.copy_in, "cuMemcpyHtoDAsync_v2"},
        {(void**)&driver.copy_out, "cuMemcpyDtoHAsync_v2"},
        {(void**)&driver.copy_rows, "cuMemcpy2DAsync_v2"},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
        *functions[i].function = dlsym(library, functions[i].name);
        if (*functions[i].function == NULL) return NO_DRIVER;
    }
    return 0;
}

// Events that a thread could sleep for would hold the copy engine up: each takes it 20 µs (H200).
static int await_event(void* event)
{
    const int64_t until = read_clock() + AWAKE_NANOSECONDS;
    const struct timespec nap = {0, NAP_NANOSECONDS};
    for (;;) {
        const int status = driver.query_event(event);
        if (status != NOT_READY) return status;
        if (read_clock() > until) {
            nanosleep(&nap, NULL);
        } else {
            for (int i = 0; i < PAUSES; ++i) pause_briefly();
        }
    }
}

// Wait until the device has done with a slab.
static int reclaim(Slab* slab)
{
    if (!slab->busy) return 0;
    slab->busy = 0;
    return await_event(slab->end);
}

// Whole rows in a piece where one fits a slab. Rows that are padded on the device are so in the slab:
// then a piece is one plain transfer.
static void cut_way(const Stage* stage, Way* way)
{
    const int64_t row_bytes = way->columns * way->item;
    way->pitch = way->device_pitch - row_bytes < LINE_BYTES ? way->device_pitch : row_bytes;
    way->piece_columns = way->columns;
    way->piece_rows = stage->slab_bytes / way->pitch;
    if (way->piece_rows == 0) {
        way->piece_columns = stage->slab_bytes / LINE_BYTES * LINE_BYTES / way->item;
        way->pitch = way->piece_columns * way->item;
        way->piece_rows = 1;
    }
    way->piece_rows = least(way->piece_rows, way->rows);
    way->pieces_across = divide_up(way->columns, way->piece_columns);
    way->pieces = way->pieces_across * divide_up(way->rows, way->piece_rows);
}

static Piece find_piece(const Way* way, int64_t index)
{
    const int64_t top = index / way->pieces_across * way->piece_rows;
    const int64_t left = index % way->pieces_across * way->piece_columns;
    const Piece piece = {
        top, left, least(way->piece_rows, way->rows - top), least(way->piece_columns, way->columns - left),
        way->pitch,
    };
    return piece;
}

static int transfer(Stage* stage, Slab* slab, const Way* way, const Piece* piece, int inwards)
{
    const unsigned long long device = way->device + piece->top * way->device_pitch + piece->left * way->item;
    const size_t row_bytes = piece->columns * way->item;
    int status;
    if (piece->rows == 1 || piece->pitch == way->device_pitch) {
        const size_t size = (piece->rows - 1) * piece->pitch + row_bytes;
        status = inwards ? driver.copy_in(device, slab->memory, size, stage->stream)
                         : driver.copy_out(slab->memory, device, size, stage->stream);
    } else {
        const Copy2D rows = {
            .source_kind = inwards ? ON_HOST : ON_DEVICE,
            .source_host = slab->memory,
            .source_device = device,
            .source_pitch = inwards ? piece->pitch : way->device_pitch,
            .target_kind = inwards ? ON_DEVICE : ON_HOST,
            .target_host = slab->memory,
            .target_device = device,
            .target_pitch = inwards ? way->device_pitch : piece->pitch,
            .row_bytes = row_bytes,
            .rows = piece->rows,
        };
        status = driver.copy_rows(&rows, stage->stream);
    }
    if (status != 0) return status;
    slab->busy = 1;
    return driver.record_event(slab->end, stage->stream);
}

static Way describe(
    char* host, int64_t host_row, int64_t host_column, unsigned long long device, int64_t device_pitch,
    int64_t rows, int64_t columns, int64_t item)
{
    const Way way = {
        .host = host, .host_row = host_row, .host_column = host_column, .device = device,
        .device_pitch = device_pitch, .rows = rows, .columns = columns, .item = item,
    };
    return way;
}

static void copy_piece(Stage* stage, Slab* slab, const Way* way, const Piece* piece, int inwards)
{
    char* host = way->host + piece->top * way->host_row + piece->left * way->host_column;
    if (inwards) {
        copy_matrix(
            stage->team, stage->helpers, slab->memory, piece->pitch, way->item, host, way->host_row, way->host_column,
            piece->rows, piece->columns, way->item);
    } else {
        copy_matrix(
            stage->team, stage->helpers, host, way->host_row, way->host_column, slab->memory, piece->pitch, way->item,
            piece->rows, piece->columns, way->item);
    }
}

// Copy a matrix to the device: 0 once all transfers are enqueued, else what the driver says.
static int send_matrix(Stage* stage, const Way* way)
{
    for (int64_t i = 0; i < way->pieces; ++i) {
        if (atomic_load(&stage->stopping)) return STOPPED;
        const Piece piece = find_piece(way, i);
        Slab* slab = &stage->slab[stage->next];
        stage->next = (stage->next + 1) % stage->slabs;
        int status = reclaim(slab);
        if (status != 0) return status;
        copy_piece(stage, slab, way, &piece, 1);
        status = transfer(stage, slab, way, &piece, 1);
        if (status != 0) return status;
    }
    return 0;
}

// Copy a matrix from the device: 0 when it is there, else what the driver says.
static int fetch_matrix(Stage* stage, const Way* way)
{
    int64_t begun = 0;
    for (int64_t i = 0; i < way->pieces; ++i) {
        for (; begun < way->pieces && begun - i < stage->slabs; ++begun) {
            if (atomic_load(&stage->stopping)) return STOPPED;
            const Piece ahead = find_piece(way, begun);
            Slab* slab = &stage->slab[begun % stage->slabs];
            int status = reclaim(slab);
            if (status == 0) status = transfer(stage, slab, way, &ahead, 0);
            if (status != 0) return status;
        }
        const Piece piece = find_piece(way, i);
        Slab* slab = &stage->slab[i % stage->slabs];
        const int status = reclaim(slab);
        if (status != 0) return status;
        copy_piece(stage, slab, way, &piece, 0);
    }
    return 0;
}

static int run_errand(Stage* stage, const Errand* errand)
{
    int status = 0;
    if (atomic_load(&stage->stopping)) return STOPPED;
    if (errand->after != NULL) status = driver.await_in_stream(stage->stream, errand->after, 0);
    if (status == 0) status = driver.record_event(errand->start, stage->stream);
    if (status == 0) status = (errand->inwards ? send_matrix : fetch_matrix)(stage, &errand->way);
    if (status == 0) status = driver.record_event(errand->end, stage->stream);
    return status;
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
    if (status != 0 && stage->failed == 0) {
        stage->failed = number;
        stage->status = status;
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
        // Behind a failure the others wait for its being told.
        finish_errand(stage, status != 0 ? status : stage->failed != 0 ? STOPPED : run_errand(stage, errand));
        free(errand);
    }
    return NULL;
}

// Have a matrix copied, after those before it; returns its number, from 1, or 0 without memory.
// Inwards it is over when all transfers are enqueued, outwards when everything has arrived.
//
// alone: by the calling thread, at once; no other errand may be under way.
int64_t ask_stage(
    Stage* stage, int inwards, int alone, void* after, void* start, void* end, char* host,
    int64_t host_row, int64_t host_column, unsigned long long device, int64_t device_pitch, int64_t rows,
    int64_t columns, int64_t item)
{
    Errand* errand = malloc(sizeof(Errand));
    if (errand == NULL) return 0;
    const Errand asked = {
        describe(host, host_row, host_column, device, device_pitch, rows, columns, item),
        inwards, after, start, end, NULL,
    };
    *errand = asked;
    cut_way(stage, &errand->way);
    if (alone) {
        const int64_t number = atomic_fetch_add(&stage->asked, 1) + 1;
        finish_errand(stage, stage->failed != 0 ? STOPPED : run_errand(stage, errand));
        free(errand);
        return number;
    }
    pthread_mutex_lock(&stage->lock);
    if (stage->first == NULL) {
        stage->first = errand;
    } else {
        stage->last->next = errand;
    }
    stage->last = errand;
    const int64_t number = atomic_fetch_add(&stage->asked, 1) + 1;
    pthread_cond_signal(&stage->begun);
    pthread_mutex_unlock(&stage->lock);
    return number;
}

// Whether an errand is over.
int is_over(Stage* stage, int64_t number) { return atomic_load(&stage->done) >= number; }

// Wait until an errand is over: 0, or what the driver said of it or of one before it.
int await_errand(Stage* stage, int64_t number)
{
    look_for(&stage->done, number);
    pthread_mutex_lock(&stage->lock);
    while (atomic_load(&stage->done) < number) pthread_cond_wait(&stage->ended, &stage->lock);
    const int status = stage->failed != 0 && stage->failed <= number ? stage->status : 0;
    pthread_mutex_unlock(&stage->lock);
    return status;
}

// Have so many of the team's threads help from now on.
void limit_helpers(Stage* stage, int helpers) { stage->helpers = helpers; }

// Wait for all errands and their transfers: 0, or what the driver said of the first that failed.
int finish_stage(Stage* stage)
{
    int status = await_errand(stage, atomic_load(&stage->asked));
    for (int i = 0; i < stage->slabs; ++i) {
        const int one = reclaim(&stage->slab[i]);
        if (status == 0) status = one;
    }
    return status;
}

// Drop what has not begun, wait for what has, and forget what failed.
void abandon_errands(Stage* stage)
{
    atomic_store(&stage->stopping, 1);
    await_errand(stage, atomic_load(&stage->asked));
    stage->failed = 0;
    atomic_store(&stage->stopping, 0);
}

static void free_stage(Stage* stage)
{
    for (int i = 0; i < stage->slabs; ++i) {
        if (stage->slab[i].end != NULL) driver.destroy_event(stage->slab[i].end);
    }
    pthread_mutex_destroy(&stage->lock);
    pthread_cond_destroy(&stage->begun);
    pthread_cond_destroy(&stage->ended);
    free(stage);
}

// One direction of the way, with slabs of pinned memory that stay the caller's; NULL if there is no
// driver, no memory or no thread. To be closed in the same context.
Stage* open_stage(Team* team, void* stream, void* const* memories, int slabs, int64_t slab_bytes)
{
    if (load_driver() != 0) return NULL;
    Stage* stage = calloc(1, sizeof(Stage) + slabs * sizeof(Slab));
    if (stage == NULL) return NULL;
    stage->team = team;
    stage->stream = stream;
    stage->slab_bytes = slab_bytes;
    stage->slabs = slabs;
    stage->helpers = INT_MAX;
    pthread_mutex_init(&stage->lock, NULL);
    pthread_cond_init(&stage->begun, NULL);
    pthread_cond_init(&stage->ended, NULL);
    int status = driver.find_context(&stage->context);
    for (int i = 0; i < slabs && status == 0; ++i) {
        stage->slab[i].memory = memories[i];
        status = driver.create_event(&stage->slab[i].end, UNTIMED);
    }
    if (status == 0) status = pthread_create(&stage->thread, NULL, walk, stage);
    if (status == 0) return stage;
    free_stage(stage);
    return NULL;
}

// End the thread; no errand may be under way.
void close_stage(Stage* stage)
{
    pthread_mutex_lock(&stage->lock);
    stage->closing = 1;
    pthread_cond_signal(&stage->begun);
    pthread_mutex_unlock(&stage->lock);
    pthread_join(stage->thread, NULL);
    free_stage(stage);
}
