// Stands in for libcuda.so.1 where there is no GPU: streams are threads, which carry out their work in order, each
// after a random while. Device memory is host memory.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
} Copy2D;

typedef struct {
    long recorded, passed;  // how often
} Event;

typedef struct {
    const float *a, *b;
    float* c;
    long rows, columns, depth, a_pitch, b_pitch, c_pitch, adds;  // pitches in elements
} Product;

typedef enum { COPY, LAUNCH, RECORD, WAIT } Kind;

typedef struct {
    Kind kind;
    Copy2D copy;
    Product product;
    Event* event;
    long number;
} Work;

enum { MOST = 1 << 14, NOT_READY = 600, MOST_MICROSECONDS = 60 };

typedef struct {
    Work list[MOST];
    long listed;
    pthread_t thread;
    unsigned seed;
} Stream;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

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

static void copy(const Copy2D* one)
{
    char* target = one->target_kind == 1 ? one->target_host : (char*)one->target_device;
    const char* source = one->source_kind == 1 ? one->source_host : (const char*)one->source_device;
    for (size_t i = 0; i < one->rows; ++i) {
        memcpy(target + i * one->target_pitch, source + i * one->source_pitch, one->row_bytes);
    }
}

static void* run_stream(void* argument)
{
    Stream* const stream = argument;
    for (long next = 0;; ++next) {
        pthread_mutex_lock(&lock);
        while (next == stream->listed) pthread_cond_wait(&changed, &lock);
        Work* const work = &stream->list[next % MOST];
        while (work->kind == WAIT && work->event->passed < work->number) pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        usleep(rand_r(&stream->seed) % MOST_MICROSECONDS);
        if (work->kind == COPY) copy(&work->copy);
        if (work->kind == LAUNCH) multiply(&work->product);
        pthread_mutex_lock(&lock);
        if (work->kind == RECORD && work->event->passed < work->number) work->event->passed = work->number;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

// A new stream, which lasts as long as the process.
void* make_stream(unsigned seed)
{
    Stream* const stream = calloc(1, sizeof(Stream));
    stream->seed = seed;
    pthread_create(&stream->thread, NULL, run_stream, stream);
    return stream;
}

static int add(Stream* stream, Work work)
{
    pthread_mutex_lock(&lock);
    if (work.kind == RECORD) work.number = ++work.event->recorded;
    if (work.kind == WAIT) work.number = work.event->recorded;  // an event that was never recorded has passed
    stream->list[stream->listed++ % MOST] = work;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int add_copy(Stream* stream, void* target, const void* source, size_t size)
{
    const Copy2D line = {
        .source_kind = 1, .source_host = source, .target_kind = 1, .target_host = target, .row_bytes = size, .rows = 1,
    };
    return add(stream, (Work){.kind = COPY, .copy = line});
}

int cuCtxGetCurrent(void** context)
{
    *context = &lock;
    return 0;
}

int cuCtxSetCurrent(void* context) { return context == &lock ? 0 : 1; }

int cuStreamWaitEvent(void* stream, void* event, unsigned flags)
{
    (void)flags;
    return add(stream, (Work){.kind = WAIT, .event = event});
}

int cuEventCreate(void** event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof(Event));
    return 0;
}

int cuEventDestroy_v2(void* event)
{
    free(event);
    return 0;
}

int cuEventRecord(void* event, void* stream) { return add(stream, (Work){.kind = RECORD, .event = event}); }

int cuEventQuery(void* event)
{
    const Event* const one = event;
    pthread_mutex_lock(&lock);
    const int status = one->passed < one->recorded ? NOT_READY : 0;
    pthread_mutex_unlock(&lock);
    return status;
}

int cuEventElapsedTime(float* milliseconds, void* start, void* end)
{
    *milliseconds = start == end ? 0 : 1;
    return 0;
}

int cuMemsetD8Async(unsigned long long device, unsigned char value, size_t size, void* stream)
{
    (void)device, (void)value, (void)size, (void)stream;
    return 1;
}

int cuLaunchKernel(
    void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
    unsigned block_z, unsigned shared_bytes, void* stream, void** arguments, void** extra)
{
    (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
    (void)shared_bytes, (void)extra;
    return add(stream, (Work){.kind = LAUNCH, .product = *(const Product*)arguments[0]});
}

int cuMemcpyHtoDAsync_v2(unsigned long long device, const void* host, size_t size, void* stream)
{
    return add_copy(stream, (void*)device, host, size);
}

int cuMemcpyDtoHAsync_v2(void* host, unsigned long long device, size_t size, void* stream)
{
    return add_copy(stream, host, (const void*)device, size);
}

int cuMemcpyDtoDAsync_v2(unsigned long long target, unsigned long long source, size_t size, void* stream)
{
    return add_copy(stream, (void*)target, (const void*)source, size);
}

int cuMemcpy2DAsync_v2(const Copy2D* copied, void* stream) { return add(stream, (Work){.kind = COPY, .copy = *copied}); }
