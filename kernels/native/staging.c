// A matrix on its way between the caller's memory and the device: piece by piece through pinned slabs.
//
// Inwards a team of threads fills a slab, and its transfer follows; the slab is used again when that is
// done. Outwards transfers run ahead as far as there are slabs, and the team empties one after the
// other as they arrive. The driver is called through its own library, with what CuPy made: its
// streams and the address of its memory. The calling thread must have the device's context.
#include "copies.h"

#include <dlfcn.h>
#include <limits.h>
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

typedef struct {
    Team* team;
    void* stream;
    int64_t slab_bytes;
    int helpers;
    atomic_int stopping;
    int slabs;
    int next;
    Slab slab[];
} Stage;

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

static int load_driver(void)
{
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) return NO_DRIVER;
    const struct {
        void** function;
        const char* name;
    } functions[] = {
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

// One direction of the way, with slabs of pinned memory that stay the caller's; NULL if there is no
// driver or no memory. To be closed in the same context.
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
    for (int i = 0; i < slabs; ++i) {
        stage->slab[i].memory = memories[i];
        if (driver.create_event(&stage->slab[i].end, UNTIMED) != 0) return NULL;
    }
    return stage;
}

// Copy a matrix to the device: 0 once all transfers are enqueued, else what the driver says.
int send_matrix(
    Stage* stage, char* host, int64_t host_row, int64_t host_column, unsigned long long device,
    int64_t device_pitch, int64_t rows, int64_t columns, int64_t item)
{
    Way way = describe(host, host_row, host_column, device, device_pitch, rows, columns, item);
    cut_way(stage, &way);
    for (int64_t i = 0; i < way.pieces; ++i) {
        if (atomic_load(&stage->stopping)) return STOPPED;
        const Piece piece = find_piece(&way, i);
        Slab* slab = &stage->slab[stage->next];
        stage->next = (stage->next + 1) % stage->slabs;
        int status = reclaim(slab);
        if (status != 0) return status;
        copy_piece(stage, slab, &way, &piece, 1);
        status = transfer(stage, slab, &way, &piece, 1);
        if (status != 0) return status;
    }
    return 0;
}

// Copy a matrix from the device: 0 when it is there, else what the driver says.
int fetch_matrix(
    Stage* stage, char* host, int64_t host_row, int64_t host_column, unsigned long long device,
    int64_t device_pitch, int64_t rows, int64_t columns, int64_t item)
{
    Way way = describe(host, host_row, host_column, device, device_pitch, rows, columns, item);
    cut_way(stage, &way);
    int64_t begun = 0;
    for (int64_t i = 0; i < way.pieces; ++i) {
        for (; begun < way.pieces && begun - i < stage->slabs; ++begun) {
            if (atomic_load(&stage->stopping)) return STOPPED;
            const Piece ahead = find_piece(&way, begun);
            Slab* slab = &stage->slab[begun % stage->slabs];
            int status = reclaim(slab);
            if (status == 0) status = transfer(stage, slab, &way, &ahead, 0);
            if (status != 0) return status;
        }
        const Piece piece = find_piece(&way, i);
        Slab* slab = &stage->slab[i % stage->slabs];
        const int status = reclaim(slab);
        if (status != 0) return status;
        copy_piece(stage, slab, &way, &piece, 0);
    }
    return 0;
}

// Have so many of the team's threads help the caller from now on.
void limit_helpers(Stage* stage, int helpers) { stage->helpers = helpers; }

// Have copies that are under way end early, or not.
void stop_stage(Stage* stage, int stopping) { atomic_store(&stage->stopping, stopping); }

// Wait for all transfers: 0, or what the driver says.
int finish_stage(Stage* stage)
{
    int status = 0;
    for (int i = 0; i < stage->slabs; ++i) {
        const int one = reclaim(&stage->slab[i]);
        if (status == 0) status = one;
    }
    return status;
}

void close_stage(Stage* stage)
{
    for (int i = 0; i < stage->slabs; ++i) driver.destroy_event(stage->slab[i].end);
    free(stage);
}
