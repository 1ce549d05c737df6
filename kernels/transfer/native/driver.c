#include "driver.h"


#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

Driver driver;

static int found = NO_DRIVER;

static void find_functions(void)
{
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) return;
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
        {(void**)&driver.copy_between, "cuMemcpyDtoDAsync_v2"},
        {(void**)&driver.copy_rows, "cuMemcpy2DAsync_v2"},
        {(void**)&driver.set_bytes, "cuMemsetD8Async"},
        {(void**)&driver.launch_kernel, "cuLaunchKernel"},
        {(void**)&driver.read_milliseconds, "cuEventElapsedTime"},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
        *functions[i].function = dlsym(library, functions[i].name);
        if (*functions[i].function == NULL) return;
    }
    found = 0;
}

int load_driver(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_functions);
    return found;
}

// Enqueue a copy of adjacent bytes, which begin so far after the first ones.
static int copy_line(const Copy2D* copy, size_t from, size_t to, size_t size, void* stream)
{
    const unsigned long long source = copy->source_device + from, target = copy->target_device + to;
    if (copy->source_kind == ON_HOST) return driver.copy_in(target, (const char*)copy->source_host + from, size, stream);
    if (copy->target_kind == ON_HOST) return driver.copy_out((char*)copy->target_host + to, source, size, stream);
    return driver.copy_between(target, source, size, stream);
}

int copy_rows(const Copy2D* copy, void* stream)
{
    enum { MOST_PITCH = INT32_MAX };  // CU_DEVICE_ATTRIBUTE_MAX_PITCH
    const size_t from = copy->source_pitch, to = copy->target_pitch, size = copy->row_bytes;
    if (copy->rows == 1 || (from == to && to == size)) return copy_line(copy, 0, 0, copy->rows * size, stream);
    if (from <= MOST_PITCH && to <= MOST_PITCH) return driver.copy_rows(copy, stream);
    int status = 0;
    for (size_t i = 0; i < copy->rows && status == 0; ++i) status = copy_line(copy, i * from, i * to, size, stream);
    return status;
}

int copy_host_rows(
    char* host, size_t host_pitch, unsigned long long device, size_t device_pitch, size_t row_bytes, size_t rows,
    int inwards, void* stream)
{
    const Copy2D copy = {
        .source_kind = inwards ? ON_HOST : ON_DEVICE, .source_host = host, .source_device = device,
        .source_pitch = inwards ? host_pitch : device_pitch,
        .target_kind = inwards ? ON_DEVICE : ON_HOST, .target_host = host, .target_device = device,
        .target_pitch = inwards ? device_pitch : host_pitch, .row_bytes = row_bytes, .rows = rows,
    };
    return copy_rows(&copy, stream);
}

// Polls and naps, because a blocking event stops the copy engine for 20 µs (H200).
int await_event(void* event)
{
    const int64_t until = read_clock() + find_patience(COPIERS_AWAKE_NANOSECONDS);
    const struct timespec nap = {0, NAP_NANOSECONDS};
    int status;
    while ((status = driver.query_event(event)) == NOT_READY) {
        if (read_clock() > until) {
            nanosleep(&nap, NULL);
        } else {
            for (int i = 0; i < PAUSES; ++i) pause_briefly();
        }
    }
    return status;
}
