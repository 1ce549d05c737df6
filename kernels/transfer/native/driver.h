// The functions of CUDA's driver that stages and commands call, found in its library at run time.
// Streams, events and device memory are CuPy's.
#pragma once

#include "../../../native/waiting.h"

#include <stddef.h>

enum {
    ON_HOST = 1,  // CUmemorytype
    ON_DEVICE = 2,
    UNTIMED = 2,  // CUevent_flags
    NOT_READY = 600,  // CUresult
    NO_DRIVER = -1,  // not a result of the driver
};

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

// All return a CUresult: 0 for success.
typedef struct {
    int (*find_context)(void** context);
    int (*use_context)(void* context);
    int (*await_in_stream)(void* stream, void* event, unsigned flags);
    int (*create_event)(void** event, unsigned flags);
    int (*destroy_event)(void* event);
    int (*record_event)(void* event, void* stream);
    int (*query_event)(void* event);
    int (*copy_in)(unsigned long long device, const void* host, size_t size, void* stream);
    int (*copy_out)(void* host, unsigned long long device, size_t size, void* stream);
    int (*copy_between)(unsigned long long target, unsigned long long source, size_t size, void* stream);
    int (*copy_rows)(const Copy2D* copy, void* stream);
    int (*set_bytes)(unsigned long long device, unsigned char value, size_t size, void* stream);
    int (*launch_kernel)(
        void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
        unsigned block_z, unsigned shared_bytes, void* stream, void** arguments, void** extra);
    int (*read_milliseconds)(float* milliseconds, void* start, void* end);
} Driver;

extern Driver driver;

// Find the driver's functions, once for the process: returns 0 or NO_DRIVER. Thread-safe.
int load_driver(void);

// Enqueue a copy of rows, with any pitch, even above the driver's limit: returns a CUresult. Padding between the
// target's rows is not written.
int copy_rows(const Copy2D* copy, void* stream);

// The same between host and device memory: to the device, or from it.
int copy_host_rows(
    char* host, size_t host_pitch, unsigned long long device, size_t device_pitch, size_t row_bytes, size_t rows,
    int inwards, void* stream);

// Wait until an event has passed: returns a CUresult.
int await_event(void* event);
