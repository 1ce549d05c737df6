// Uses several stages of one pool at once, for the sanitizers. Its libcuda.so.1 is driver.c. Exits with 1 if an
// element is wrong.
#include "../../../kernels/transfer/native/stage.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Stage* open_stage(
    Pool* pool, void* in_stream, void* out_stream, char* memory, int slabs, int64_t slab_bytes);
int finish_stage(Stage* stage);
void abandon_copies(Stage* stage);
void close_stage(Stage* stage);
int cuEventCreate(void** event, unsigned flags);
int cuEventDestroy_v2(void* event);

enum {
    STAGES = 18,  // more than tasks that are on offer at one time
    HELPERS = 2,
    ROUNDS = 4,
    ROWS = 190,
    COLUMNS = 411,
    ITEM = 4,
    PITCH = 448,  // items, of the device's rows
    SEVERAL = 5,  // copies at once
    SLABS = 3,
    SLAB_BYTES = 20000,
};

static Pool* pool;
static atomic_int wrong;

static void expect(int holds, const char* what)
{
    if (holds) return;
    fprintf(stderr, "race_check: %s\n", what);
    atomic_store(&wrong, 1);
}

static int32_t* make_matrix(int32_t seed, int pitch)
{
    int32_t* matrix = malloc(sizeof(int32_t) * ROWS * pitch);
    for (int i = 0; i < ROWS * pitch; ++i) matrix[i] = seed + i;
    return matrix;
}

static int64_t ask(Stage* stage, int inwards, int pads, void* const* events, int32_t* host, int32_t* device)
{
    const MatrixCopy copy = {
        .host = (char*)host, .host_row = COLUMNS * ITEM, .host_column = ITEM,
        .device = (unsigned long long)(uintptr_t)device, .device_pitch = PITCH * ITEM,
        .padding = pads ? (PITCH - COLUMNS) * ITEM : 0, .rows = ROWS, .columns = COLUMNS, .item = ITEM,
        .inwards = inwards,
    };
    return request_copies(stage, &copy, 1, events[0], events[1], events[2]);
}

// Copies in and out through a stage; then abandons some copies.
static void walk_often(Stage* stage, void* const* events, int32_t seed)
{
    int32_t* source = make_matrix(seed, COLUMNS);
    int32_t* target = make_matrix(-2, COLUMNS);
    int32_t* device = make_matrix(-3, PITCH);
    int32_t* targets[SEVERAL];
    for (int i = 0; i < SEVERAL; ++i) targets[i] = make_matrix(-4, COLUMNS);
    for (int round = 0; round < ROUNDS; ++round) {
        const int64_t first = ask(stage, 1, round % 2, events, source, device);
        expect(await_copy(stage, 1, first) == 0, "a copy to the device fails");
        const int64_t last = ask(stage, 0, round % 2, events, target, device);
        expect(await_copy(stage, 0, last) == 0, "a copy from the device fails");
        expect(finish_stage(stage) == 0, "a stage fails");
        expect(memcmp(target, source, sizeof(int32_t) * ROWS * COLUMNS) == 0, "elements change on the way");
        memset(target, 0, sizeof(int32_t) * ROWS * COLUMNS);
        for (int i = 0; i < SEVERAL; ++i) ask(stage, 0, 1, events, targets[i], device);
        expect(finish_stage(stage) == 0, "a stage with several copies fails");
        for (int i = 0; i < SEVERAL; ++i) {
            expect(memcmp(targets[i], source, sizeof(int32_t) * ROWS * COLUMNS) == 0, "elements change ahead");
            memset(targets[i], 0, sizeof(int32_t) * ROWS * COLUMNS);
        }
        for (int i = 0; i < SEVERAL; ++i) ask(stage, i % 2, 1, events, i % 2 ? source : targets[i], device);
        abandon_copies(stage);
        expect(finish_stage(stage) == 0, "an abandoned copy is reported");
    }
    free(source);
    free(target);
    free(device);
    for (int i = 0; i < SEVERAL; ++i) free(targets[i]);
}

static void* use_stage(void* argument)
{
    char* memory = malloc(2 * SLABS * SLAB_BYTES);
    void* events[3];
    for (int i = 0; i < 3; ++i) cuEventCreate(&events[i], 2);
    Stage* stage = open_stage(pool, NULL, NULL, memory, SLABS, SLAB_BYTES);
    expect(stage != NULL, "a stage does not open");
    if (stage != NULL) {
        walk_often(stage, events, (int32_t)(intptr_t)argument * 1000000);
        close_stage(stage);
    }
    free(memory);
    for (int i = 0; i < 3; ++i) cuEventDestroy_v2(events[i]);
    return NULL;
}

int main(void)
{
    pool = open_pool(HELPERS, COPIERS_AWAKE_NANOSECONDS, 0);
    pthread_t thread[STAGES];
    for (intptr_t i = 0; i < STAGES; ++i) pthread_create(&thread[i], NULL, use_stage, (void*)i);
    for (int i = 0; i < STAGES; ++i) {
        limit_pool(pool, i % (HELPERS + 1));
        wake_pool(pool, HELPERS);
        pthread_join(thread[i], NULL);
    }
    close_pool(pool);
    free_pool(pool);
    return atomic_load(&wrong);
}
