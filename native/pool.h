// A thread pool for tasks: copies between host memory and a device (kernels/transfer/native/stage.c),
// and blocks of products (cpu/native/calls.c).
//
// The owner of a task starts it and works on it, too. A task has places for helpers: the number of threads that may
// still join. Each helper takes parts of the work until none is left. The owner does not wait for a helper that comes
// too late.
//
// A process has two pools, so that a copy that a GPU waits for finds threads while others compute blocks, which take
// a thousand times as long.
#pragma once

#include "waiting.h"

enum { WOKEN = 8 };  // threads that one thread wakes for a task; each wakes others (cpu/native/calls.c); chosen

typedef struct Pool Pool;
typedef struct Slot Slot;

typedef struct Task {
    void (*help)(struct Task* task);  // run by each thread that joins
    atomic_int places;  // how many more threads may join
    Slot* slot;  // of the pool, while the task is on offer
} Task;

// Open a pool. Returns NULL without memory; has fewer threads if not all can be started.
//
// awake_nanoseconds: how long a thread without a task polls before it sleeps.
// settles: each thread sleeps on a core of its own, if there are enough cores.
EXPORTED Pool* open_pool(int threads, int64_t awake_nanoseconds, int settles);

// End the threads, each after its current part. Owners of tasks go on without them.
EXPORTED void close_pool(Pool* pool);

// Free a closed pool. None of its tasks may be on offer.
EXPORTED void free_pool(Pool* pool);

// Wake this many threads for a task that follows soon.
EXPORTED void wake_pool(Pool* pool, int threads);

// Let only the first `threads` threads look for tasks from now on. A sleeping thread beyond the limit may wake up
// once more, and then does nothing.
EXPORTED void limit_pool(Pool* pool, int threads);

// Offer a task: threads join once it has places and they are notified. If all slots are taken, none
// joins and the owner works alone.
void offer_task(Pool* pool, Task* task);

// Announce that the task has places, and wake at most `most` sleeping threads.
void call_helpers(Pool* pool, Task* task, int most);

// The same, called by a thread that has just joined: wakes sleepers without a new announcement.
void call_others(Pool* pool, Task* task, int most);

// Stop offering a task, and wait until all its helpers have left.
void withdraw_task(Task* task);

// Whether the pool is being closed.
int is_closing(Pool* pool);

// The word that counts changes in tasks of this pool, for threads that wait inside a task.
Word* find_changes(Pool* pool);

// Make sure that no pool thread will wake up on the calling thread's core.
void clear_core(Pool* pool);

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
