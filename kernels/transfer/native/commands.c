// Commands: the copies, launches and events of a product, recorded once as data and submitted in one call. Python
// would take longer to make these calls than the GPU takes for a small product.
//
// The calling thread calls the driver, in the binding's context; then it gets its own context back.
//
// Pageable memory is copied by a stage. Its threads enqueue the transfers of the first and the third queue and the
// events around them, so an event of theirs is recorded once its copy is done. Whoever waits for such an event
// awaits the copy first: for CUDA, an event that was never recorded has passed.
#include "driver.h"
#include "stage.h"

#include <stdint.h>

// As in kernels/gemm/prepared.py.
enum {
    LAUNCH, CLEAR, MULTIPLY, COPY_IN, COPY_OUT, RECORD, WAIT, COPY_BETWEEN, WAIT_FOR_PEER, STAGE_IN, STAGE_OUT
};

enum { OPERANDS = 3, QUEUES = 4, WORDS = 9 };  // as in kernels/pipeline/submission.py and commands.py
enum { QUEUE_IN, QUEUE_COMPUTE, QUEUE_OUT };  // likewise
enum { OUT_OF_MEMORY = 2 };  // CUDA_ERROR_OUT_OF_MEMORY

typedef struct {
    int64_t kind;
    int64_t queue;  // index of the stream
    int64_t words[WORDS];
} Command;

enum { HALF = 2, BFLOAT16 = 14 };  // types of cuBLAS, as in kernels/gemm/cublas.py

// cublasGemmEx. Returns a cublasStatus_t.
typedef int (*Multiply)(
    void* handle, int transpose_a, int transpose_b, int m, int n, int k, const void* alpha, const void* a,
    int a_type, int lda, const void* b, int b_type, int ldb, const void* beta, void* c, int c_type, int ldc,
    int compute_type, int algorithm);

// What a buffer refers to by index.
typedef struct {
    void* context;
    void* streams[QUEUES];
    void* const* events;
    void* const* const* peers;  // the events of each GPU of an exchange
    void* handles[2];  // of cuBLAS, in the stream of its commands: for longer types, and for those of 16 bits
    Multiply multiply;
    char* hosts[OPERANDS];  // first elements of A, B, C in host memory
    int64_t pitches[OPERANDS];  // bytes from row to row there
    int64_t strides[OPERANDS];  // bytes from element to element of a row, for staged copies
    Stage* stage;  // NULL if no copy is staged
    int64_t* requests;  // of each event, the stage's copy that records it: its number, below 0 if outwards; else 0
} Binding;

// Copies of one step in one direction, gathered until the event after them is known.
typedef struct {
    MatrixCopy copies[OPERANDS];
    int count;
    void* after;  // event that they wait for; NULL for none
    void* start;  // event before them; NULL for none
} Gathered;

static int copy_operand(const int64_t* words, const Binding* binding, int inwards, void* stream)
{
    const int64_t pitch = binding->pitches[words[0]];
    char* const host = binding->hosts[words[0]] + words[1] * pitch + words[2];
    return copy_host_rows(host, pitch, words[5], words[6], words[4], words[3], inwards, stream);
}

// Within a GPU's memory, or from another GPU's.
static int copy_between(const int64_t* words, void* stream)
{
    const Copy2D copy = {
        .source_kind = ON_DEVICE, .source_device = words[0], .source_pitch = words[4],
        .target_kind = ON_DEVICE, .target_device = words[1], .target_pitch = words[5],
        .row_bytes = words[3], .rows = words[2],
    };
    return copy_rows(&copy, stream);
}

static int launch(const int64_t* words, void* stream)
{
    return driver.launch_kernel(
        (void*)words[0], words[1], 1, 1, words[2], words[3], words[4], words[5], stream, (void**)words[6], NULL);
}

// Errors of cuBLAS become negative, because errors of the driver have the same numbers.
static int multiply(const int64_t* arguments, const Binding* binding)
{
    const int64_t* x = arguments;
    void* const handle = binding->handles[x[7] == HALF || x[7] == BFLOAT16];
    return -binding->multiply(
        handle, x[0], x[1], x[2], x[3], x[4], (void*)x[5], (void*)x[6], x[7], x[8], (void*)x[9], x[10],
        x[11], (void*)x[12], (void*)x[13], x[14], x[15], x[16], x[17]);
}

static int submit(const Command* command, const Binding* binding)
{
    const int64_t* words = command->words;
    void* const stream = binding->streams[command->queue];
    switch (command->kind) {
    case LAUNCH: return launch(words, stream);
    case CLEAR: return driver.set_bytes(words[0], 0, words[1], stream);
    case MULTIPLY: return multiply((const int64_t*)words[0], binding);
    case COPY_IN:
    case COPY_OUT: return copy_operand(words, binding, command->kind == COPY_IN, stream);
    case RECORD: return driver.record_event(binding->events[words[0]], stream);
    case COPY_BETWEEN: return copy_between(words, stream);
    case WAIT_FOR_PEER: return driver.await_in_stream(stream, binding->peers[words[0]][words[1]], 0);
    default: return driver.await_in_stream(stream, binding->events[words[0]], 0);
    }
}

// Enqueue what precedes copies: the wait, and the event before them.
static int begin_copies(Gathered* gathered, void* stream)
{
    int status = 0;
    if (gathered->after != NULL) status = driver.await_in_stream(stream, gathered->after, 0);
    if (status == 0 && gathered->start != NULL) status = driver.record_event(gathered->start, stream);
    gathered->after = gathered->start = NULL;
    return status;
}

static void gather(const int64_t* words, const Binding* binding, int inwards, Gathered* gathered)
{
    const int64_t operand = words[0], rows = words[3], columns = words[4], item = words[8];
    const int64_t row = binding->pitches[operand], column = columns == 1 ? item : binding->strides[operand];
    gathered->copies[gathered->count++] = (MatrixCopy){
        .host = binding->hosts[operand] + words[1] * row + words[2] * binding->strides[operand],
        .host_row = rows == 1 ? columns * column : row, .host_column = column, .device = words[5],
        .device_pitch = words[6], .padding = words[7], .rows = rows, .columns = columns, .item = item,
        .inwards = inwards,
    };
}

// Ask the stage for the gathered copies, after which it records `event`.
static int request_gathered(Gathered* gathered, const Binding* binding, int64_t event)
{
    const int inwards = gathered->copies[0].inwards;
    const int64_t number = request_copies(
        binding->stage, gathered->copies, gathered->count, gathered->after, gathered->start,
        binding->events[event]);
    binding->requests[event] = inwards ? number : -number;
    *gathered = (Gathered){.count = 0};
    return number == 0 ? OUT_OF_MEMORY : 0;
}

// Wait until an event is recorded, if the stage records it.
static int await_request(const Binding* binding, int64_t event)
{
    const int64_t number = binding->requests[event];
    if (number == 0) return 0;
    return await_copy(binding->stage, number > 0, number > 0 ? number : -number);
}

// An event before copies is only noted: who copies will record it.
static int record_around_copies(const Command* command, const Binding* binding, Gathered* gathered, int copied)
{
    const int64_t event = command->words[0];
    binding->requests[event] = 0;
    if (gathered->count > 0) return request_gathered(gathered, binding, event);
    if (copied) return driver.record_event(binding->events[event], binding->streams[command->queue]);
    gathered->start = binding->events[event];
    return 0;
}

static int wait_before_copies(const Command* command, const Binding* binding, Gathered* gathered)
{
    const int64_t event = command->words[0];
    if (binding->requests[event] != 0) return await_request(binding, event);
    const int status = begin_copies(gathered, binding->streams[command->queue]);  // an earlier wait
    gathered->after = binding->events[event];
    return status;
}

// Submit a command of a product with staged copies.
//
// copied: whether the command before it in its queue was a copy.
static int submit_staged(const Command* command, const Binding* binding, Gathered* gathered, int copied)
{
    void* const stream = binding->streams[command->queue];
    int status = 0;
    switch (command->kind) {
    case STAGE_IN:
    case STAGE_OUT: gather(command->words, binding, command->kind == STAGE_IN, gathered); return 0;
    case COPY_IN:
    case COPY_OUT: status = begin_copies(gathered, stream); break;
    case RECORD:
        if (command->queue != QUEUE_COMPUTE) return record_around_copies(command, binding, gathered, copied);
        binding->requests[command->words[0]] = 0;
        break;
    case WAIT:
        if (command->queue != QUEUE_COMPUTE) return wait_before_copies(command, binding, gathered);
        status = await_request(binding, command->words[0]);
        break;
    default: break;
    }
    return status != 0 ? status : submit(command, binding);
}

static int submit_all_staged(const Command* commands, int64_t count, const Binding* binding)
{
    Gathered gathered[QUEUES] = {{.count = 0}};
    int copied[QUEUES] = {0};
    int status = 0;
    for (const Command* one = commands; one < commands + count && status == 0; ++one) {
        status = submit_staged(one, binding, &gathered[one->queue], copied[one->queue]);
        copied[one->queue] = one->kind == COPY_IN || one->kind == COPY_OUT;
    }
    return status;
}

static int await(void* event, int awake)
{
    int status;
    if (!awake) return await_event(event);
    while ((status = driver.query_event(event)) == NOT_READY) pause_briefly();
    return status;
}

static int submit_all(const Command* commands, int64_t count, const Binding* binding)
{
    int status = 0;
    if (binding->stage != NULL) return submit_all_staged(commands, count, binding);
    for (int64_t i = 0; i < count && status == 0; ++i) status = submit(&commands[i], binding);
    return status;
}

static int run(const Command* commands, int64_t count, const Binding* binding, int64_t event, int awake)
{
    const int status = submit_all(commands, count, binding);
    if (status != 0 || event < 0) return status;
    const int64_t request = binding->stage == NULL ? 0 : binding->requests[event];
    if (request < 0) return await_request(binding, event);  // all bytes have arrived
    const int requested = request > 0 ? await_request(binding, event) : 0;
    return requested != 0 ? requested : await(binding->events[event], awake);
}

// Make the binding's context the thread's current one, if it is not; `before` gets the earlier one.
static int enter_context(const Binding* binding, void** before, int* entered)
{
    *entered = 0;
    int status = load_driver();
    if (status == 0) status = driver.find_context(before);
    if (status != 0 || *before == binding->context) return status;
    status = driver.use_context(binding->context);
    *entered = status == 0;
    return status;
}

static int leave_context(void* before, int entered, int status)
{
    const int restored = entered ? driver.use_context(before) : 0;
    return status != 0 ? status : restored;
}

// Enqueue commands in order, then wait until an event has passed: returns the first error, a CUresult or a
// negative cublasStatus_t.
//
// event: index of the event; negative not to wait. awake: whether to poll all the time, not to nap.
EXPORTED int run_commands(const Command* commands, int64_t count, const Binding* binding, int64_t event, int awake)
{
    void* before;
    int entered;
    int status = enter_context(binding, &before, &entered);
    if (status == 0) status = run(commands, count, binding, event, awake);
    return leave_context(before, entered, status);
}

// The commands of one GPU of a team, in batches (kernels/pipeline/commands.py).
typedef struct {
    const Command* commands;
    const int64_t* ends;  // number of commands until the end of each batch
    int64_t batches;
    Binding* binding;
    void* const* events;
    int64_t first_row;  // of A and C
    int64_t left_bytes;  // before its first column, in rows of B and C
} Program;

// Bind the GPU to the part of each operand that it needs, and to all GPUs' events.
static void bind(const Program* one, char* const* hosts, const int64_t* pitches, void* const* const* peers)
{
    Binding* binding = one->binding;
    binding->stage = NULL;
    const int64_t row = one->first_row, left = one->left_bytes;
    const int64_t offsets[OPERANDS] = {row * pitches[0], left, row * pitches[2] + left};  // of A, B, C
    for (int operand = 0; operand < OPERANDS; ++operand) {
        binding->hosts[operand] = hosts[operand] + offsets[operand];
        binding->pitches[operand] = pitches[operand];
    }
    binding->events = one->events;
    binding->peers = peers;
}

// Enqueue the commands of a team: returns the first error, as `run_commands`. A batch of each GPU, then the next
// one of each: so all begin early, and an event that another GPU waits for was recorded in an earlier batch.
// (A thread for each GPU was a third faster with four GPUs, and no faster with two, because the driver has locks.)
//
// hosts, pitches: first elements of A, B and C, and bytes from row to row.
EXPORTED int run_together(const Program* programs, int64_t count, char* const* hosts, const int64_t* pitches)
{
    void* const* peers[count];
    for (int64_t i = 0; i < count; ++i) peers[i] = programs[i].events;
    for (int64_t i = 0; i < count; ++i) bind(&programs[i], hosts, pitches, peers);
    int status = 0;
    int64_t left = count;
    for (int64_t batch = 0; left > 0; ++batch) {
        left = 0;
        for (const Program* one = programs; one < programs + count && status == 0; ++one) {
            if (batch >= one->batches) continue;
            const int64_t begin = batch > 0 ? one->ends[batch - 1] : 0;
            status = run_commands(one->commands + begin, one->ends[batch] - begin, one->binding, -1, 0);
            ++left;
        }
    }
    return status;
}

// Add up the seconds between pairs of events that have passed: returns a CUresult.
EXPORTED int read_spans(const Binding* binding, const int32_t* pairs, int64_t count, double* seconds)
{
    void* const* const events = binding->events;
    void* before;
    int entered;
    int status = enter_context(binding, &before, &entered);
    *seconds = 0;
    for (int64_t i = 0; i < count && status == 0; ++i) {
        float milliseconds = 0;
        status = driver.read_milliseconds(&milliseconds, events[pairs[2 * i]], events[pairs[2 * i + 1]]);
        *seconds += milliseconds / 1e3;
    }
    return leave_context(before, entered, status);
}
