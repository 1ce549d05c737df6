// Stands in for libcuda.so.1 where there is no GPU. Work waits in its stream, and is done only when an event behind it
// has been asked for several times, then in a random order of the streams: memory that is used again too early, and
// waits that are missing, then show. Device memory is host memory. Any thread may call it.
#include "../../../kernels/transfer/native/driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    long recorded, passed;  // how often
    long place;  // works before its last record
    int looks;
} Event;

typedef struct {
    const float *a, *b;
    float* c;
    long rows, columns, depth, a_pitch, b_pitch, c_pitch, adds;  // pitches in elements
} Product;

typedef enum { COPY, LAUNCH, CLEAR, RECORD, WAIT } Kind;

typedef struct {
    Kind kind;
    Copy2D copy;
    Product product;
    Event* event;
    long number;  // of the event's record
} Work;

enum { MOST = 1 << 12, PATIENCE = 3, STREAMS = 16 };  // of four GPUs

typedef struct {
    Work list[MOST];
    long listed, done;
} Stream;

static Stream streams[STREAMS];  // a stream is its number, as a pointer
static int refusal, failure, held;
static long works;
static unsigned seed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void multiply(const Product* p)
{
    for (long i = 0; i < p->rows; ++i) {
        for (long j = 0; j < p->columns; ++j) {
            float sum = p->adds ? p->c[i * p->c_pitch + j] : 0;
            for (long k = 0; k < p->depth; ++k) sum += p->a[i * p->a_pitch + k] * p->b[k * p->b_pitch + j];
            p->c[i * p->c_pitch + j] = sum;
        }
    }
}

static void copy_all(const Copy2D* one)
{
    char* target = one->target_kind == ON_HOST ? one->target_host : (char*)one->target_device;
    const char* source = one->source_kind == ON_HOST ? one->source_host : (const char*)one->source_device;
    for (size_t i = 0; i < one->rows; ++i) {
        memcpy(target + i * one->target_pitch, source + i * one->source_pitch, one->row_bytes);
    }
}

// Do the next work of a stream, or drop it: its events pass, and nothing is written.
static void carry_out(Stream* stream, int is_dropped)
{
    const Work* work = &stream->list[stream->done++ % MOST];
    if (work->kind == RECORD && work->event->passed < work->number) work->event->passed = work->number;
    if (is_dropped) return;
    if (work->kind == COPY) copy_all(&work->copy);
    if (work->kind == LAUNCH) multiply(&work->product);
    if (work->kind == CLEAR) memset(work->copy.target_host, 0, work->copy.row_bytes);
}

static int is_ready(const Stream* stream)
{
    const Work* work = &stream->list[stream->done % MOST];
    return stream->done < stream->listed && !(work->kind == WAIT && work->event->passed < work->number);
}

static void carry_out_until(const Event* event)
{
    while (event->passed < event->recorded) {
        Stream* const stream = &streams[rand_r(&seed) % STREAMS];
        if (is_ready(stream)) carry_out(stream, 0);
    }
}

static int add(void* where, Work work)
{
    Stream* const stream = &streams[(size_t)where];
    const int is_work = work.kind < RECORD;
    pthread_mutex_lock(&lock);
    int status = failure != 0 || !is_work ? failure : refusal;
    if (stream->listed - stream->done == MOST) status = 2;
    if (status == 0) {
        works += is_work;
        if (work.kind == RECORD) {
            *work.event = (Event){.recorded = work.event->recorded + 1, work.event->passed, works, 0};
        }
        if (!is_work) work.number = work.event->recorded;  // a wait for an event that was never recorded ends
        stream->list[stream->listed++ % MOST] = work;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static int add_line(Kind kind, void* target, const void* source, size_t size, void* stream)
{
    const Copy2D line = {
        .source_kind = ON_HOST, .source_host = source, .target_kind = ON_HOST, .target_host = target,
        .row_bytes = size, .rows = 1,
    };
    return add(stream, (Work){.kind = kind, .copy = line});
}

// Refuses all work with a status from now on; 0 for none.
void refuse(int status)
{
    pthread_mutex_lock(&lock);
    refusal = status;
    pthread_mutex_unlock(&lock);
}

// Lets every call fail with a status from now on, as in a lost context, which drops the work that waits; 0 for none.
void fail(int status)
{
    pthread_mutex_lock(&lock);
    failure = status;
    for (int i = 0; status != 0 && i < STREAMS; ++i) {
        while (streams[i].done < streams[i].listed) carry_out(&streams[i], 1);
    }
    pthread_mutex_unlock(&lock);
}

// Whether events are held back.
void hold(int whether)
{
    pthread_mutex_lock(&lock);
    held = whether;
    pthread_mutex_unlock(&lock);
}

// Number of copies, launches and clearings requested so far.
long count_works(void)
{
    pthread_mutex_lock(&lock);
    const long count = works;
    pthread_mutex_unlock(&lock);
    return count;
}

int cuCtxGetCurrent(void** context)
{
    *context = streams;
    return 0;
}

int cuCtxSetCurrent(void* context) { return context == streams ? 0 : 1; }

int cuStreamWaitEvent(void* stream, void* event, unsigned flags)
{
    return flags == 0 ? add(stream, (Work){.kind = WAIT, .event = event}) : 1;
}

int cuEventCreate(void** event, unsigned flags)
{
    *event = calloc(1, sizeof(Event));
    return flags == UNTIMED && *event != NULL ? 0 : 1;
}

int cuEventDestroy_v2(void* event)
{
    free(event);
    return 0;
}

int cuEventRecord(void* event, void* stream) { return add(stream, (Work){.kind = RECORD, .event = event}); }

int cuEventQuery(void* event)
{
    Event* const one = event;
    pthread_mutex_lock(&lock);
    int status = failure;
    if (status == 0 && one->passed < one->recorded) {
        if (held || ++one->looks < PATIENCE) {
            status = NOT_READY;
        } else {
            carry_out_until(one);
        }
    }
    pthread_mutex_unlock(&lock);
    return status;
}

int cuEventElapsedTime(float* milliseconds, void* start, void* end)
{
    *milliseconds = ((Event*)end)->place - ((Event*)start)->place;  // works between them
    return 0;
}

int cuMemsetD8Async(unsigned long long device, unsigned char value, size_t size, void* stream)
{
    return value == 0 ? add_line(CLEAR, (void*)device, NULL, size, stream) : 1;
}

int cuLaunchKernel(
    void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
    unsigned block_z, unsigned shared_bytes, void* stream, void** arguments, void** extra)
{
    const unsigned blocks = grid_x * grid_y * grid_z * block_x * block_y * block_z;
    if (function == NULL || blocks == 0 || shared_bytes != 0 || extra != NULL) return 1;
    return add(stream, (Work){.kind = LAUNCH, .product = *(const Product*)arguments[0]});
}

int cuMemcpyHtoDAsync_v2(unsigned long long device, const void* host, size_t size, void* stream)
{
    return add_line(COPY, (void*)device, host, size, stream);
}

int cuMemcpyDtoHAsync_v2(void* host, unsigned long long device, size_t size, void* stream)
{
    return add_line(COPY, host, (const void*)device, size, stream);
}

int cuMemcpyDtoDAsync_v2(unsigned long long target, unsigned long long source, size_t size, void* stream)
{
    return add_line(COPY, (void*)target, (const void*)source, size, stream);
}

int cuMemcpy2DAsync_v2(const Copy2D* copied, void* stream)
{
    if (copied->source_pitch > 0x7fffffff || copied->target_pitch > 0x7fffffff) return 1;  // as the driver does
    return add(stream, (Work){.kind = COPY, .copy = *copied});
}
