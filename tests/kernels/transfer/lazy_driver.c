// Stands in for libcuda.so.1 where there is no GPU. Copies wait in a list, and are made only when an
// event after them is awaited: memory that is reused too early then shows. Device memory is host
// memory. Any thread may call it.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
    long recorded;  // place in the list, from 1
    int looks;
} Event;

enum { MOST = 1 << 16, NOT_READY = 600, PATIENCE = 3 };

static Copy2D list[MOST];
static int refusal, failure, held;
static long listed, done;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int carry_out(long until)
{
    for (; done < until; ++done) {
        const Copy2D* copy = &list[done];
        for (size_t i = 0; i < copy->rows; ++i) {
            memcpy(
                (char*)copy->target_host + i * copy->target_pitch,
                (const char*)copy->source_host + i * copy->source_pitch, copy->row_bytes);
        }
    }
    return 0;
}

static int add(void* target, size_t target_pitch, const void* source, size_t source_pitch, size_t row, size_t rows)
{
    const Copy2D copy = {
        .source_host = source, .source_pitch = source_pitch, .target_host = target,
        .target_pitch = target_pitch, .row_bytes = row, .rows = rows,
    };
    pthread_mutex_lock(&lock);
    int status = refusal != 0 ? refusal : failure;
    if (status == 0 && listed == MOST) status = 2;
    if (status == 0) list[listed++] = copy;
    pthread_mutex_unlock(&lock);
    return status;
}

// Refuses every copy with a status from now on; 0 for none.
void refuse(int status)
{
    pthread_mutex_lock(&lock);
    refusal = status;
    pthread_mutex_unlock(&lock);
}

// Lets every call fail with a status from now on, as in a lost context, which makes no copy that waits; 0 for
// none.
void fail(int status)
{
    pthread_mutex_lock(&lock);
    failure = status;
    if (status != 0) done = listed;
    pthread_mutex_unlock(&lock);
}

// Whether events are held back.
void hold(int whether)
{
    pthread_mutex_lock(&lock);
    held = whether;
    pthread_mutex_unlock(&lock);
}

// Number of copies requested so far.
long count_copies(void)
{
    pthread_mutex_lock(&lock);
    const long count = listed;
    pthread_mutex_unlock(&lock);
    return count;
}

int cuCtxGetCurrent(void** context)
{
    *context = list;
    return 0;
}

int cuCtxSetCurrent(void* context) { return context == list ? 0 : 1; }

int cuStreamWaitEvent(void* stream, void* event, unsigned flags)
{
    (void)stream;
    (void)event;
    return flags == 0 ? 0 : 1;
}

int cuEventCreate(void** event, unsigned flags)
{
    *event = calloc(1, sizeof(Event));
    return flags == 2 && *event != NULL ? 0 : 1;
}

int cuEventDestroy_v2(void* event)
{
    free(event);
    return 0;
}

int cuEventRecord(void* event, void* stream)
{
    (void)stream;
    pthread_mutex_lock(&lock);
    ((Event*)event)->recorded = listed;
    ((Event*)event)->looks = 0;
    const int status = failure;
    pthread_mutex_unlock(&lock);
    return status;
}

int cuEventQuery(void* event)
{
    Event* const one = event;
    pthread_mutex_lock(&lock);
    int status = failure;
    if (status == 0) {
        const int early = done < one->recorded && (held || ++one->looks < PATIENCE);
        status = early ? NOT_READY : carry_out(one->recorded);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

int cuEventElapsedTime(float* milliseconds, void* start, void* end)
{
    *milliseconds = ((Event*)end)->recorded - ((Event*)start)->recorded;  // copies between them
    return 0;
}

int cuMemsetD8Async(unsigned long long device, unsigned char value, size_t size, void* stream)
{
    static const char zeros[1 << 12];
    (void)stream;
    return value == 0 && size <= sizeof zeros ? add((void*)device, size, zeros, size, size, 1) : 1;
}

// Stands for a kernel that copies: its arguments are target, source and size.
int cuLaunchKernel(
    void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
    unsigned block_z, unsigned shared_bytes, void* stream, void** arguments, void** extra)
{
    (void)stream;
    const unsigned blocks = grid_x * grid_y * grid_z * block_x * block_y * block_z;
    if (function == NULL || blocks == 0 || shared_bytes != 0 || extra != NULL) return 1;
    const size_t size = *(size_t*)arguments[2];
    return add(*(void**)arguments[0], size, *(void**)arguments[1], size, size, 1);
}

int cuMemcpyHtoDAsync_v2(unsigned long long device, const void* host, size_t size, void* stream)
{
    (void)stream;
    return add((void*)device, size, host, size, size, 1);
}

int cuMemcpyDtoHAsync_v2(void* host, unsigned long long device, size_t size, void* stream)
{
    (void)stream;
    return add(host, size, (const void*)device, size, size, 1);
}

int cuMemcpyDtoDAsync_v2(unsigned long long target, unsigned long long source, size_t size, void* stream)
{
    (void)stream;
    return add((void*)target, size, (const void*)source, size, size, 1);
}

int cuMemcpy2DAsync_v2(const Copy2D* copy, void* stream)
{
    (void)stream;
    if (copy->source_pitch > 0x7fffffff || copy->target_pitch > 0x7fffffff) return 1;  // as the driver does
    void* target = copy->target_kind == 1 ? copy->target_host : (void*)copy->target_device;
    const void* source = copy->source_kind == 1 ? copy->source_host : (const void*)copy->source_device;
    return add(target, copy->target_pitch, source, copy->source_pitch, copy->row_bytes, copy->rows);
}
