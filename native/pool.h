// Threads in C that help with tasks: with copies between host memory and a device
// (kernels/transfer/native/copies.c), with blocks of products (cpu/native/calls.c), and with sums of
// rows (cpu/native/sums.c).
//
// A task is begun by its owner, which works at it, too. It has places for threads that join; each of
// them takes of the work what is left. A thread that comes too late finds nothing, and nobody waits
// for it.
//
// A process has a pool for each of two priorities. Copies go first, since a GPU waits for them: their
// threads are as urgent as any others. Blocks go where nobody else wants a core: their threads yield, so
// that a copy, a launch or an answer interrupts a block at once and need not wait for its end.
//
// The same threads cannot do both. Those that compute blocks would leave a copy to its caller and one or
// two more, which is a third of a link's rate, and Linux lets no thread leave the idle class again
// without a privilege.
#pragma once

#include "waiting.h"

// What Python calls; all else stays inside the library.
#define EXPORTED __attribute__((visibility("default")))

typedef struct Pool Pool;
typedef struct Slot Slot;

typedef struct Task {
    void (*help)(struct Task* task);  // what a thread does that has joined
    atomic_int places;  // for threads that have not
    Slot* slot;  // the pool's, while it is offered
} Task;

// A pool of so many threads; NULL if there is no memory, fewer if no more start.
//
// settles: each sleeps on a core of its own, where there are enough.
// yields: they leave the cores to all others that want them.
EXPORTED Pool* open_pool(int threads, int settles, int yields);

// End the threads, each behind the part that it has; owners of tasks go on without them.
EXPORTED void close_pool(Pool* pool);

// Free a pool that is closed. None of its tasks may be on offer.
EXPORTED void free_pool(Pool* pool);

// Have so many of the threads awake for a task that follows soon.
EXPORTED void wake_pool(Pool* pool, int threads);

// Have so many of the threads look for tasks from now on, and not for long where others compute on the
// same cores. Those beyond them that sleep already wake up for one more task at most.
EXPORTED void limit_pool(Pool* pool, int threads, int shares_cores);

// Let threads join a task as soon as it has places and they hear of it. Where too many are on offer
// none will.
void offer_task(Pool* pool, Task* task);

// Tell the threads that the task has places, and wake at most so many.
void call_helpers(Pool* pool, Task* task, int most);

// The same by one that has just joined: news of it are out.
void call_others(Pool* pool, Task* task, int most);

// Let no thread join any more, and wait until all that have are back.
void withdraw_task(Task* task);

// Whether the threads are to end.
int is_closing(Pool* pool);

// What has changed so far in tasks of this pool, for those who wait within one.
Word* find_changes(Pool* pool);

// See that no thread wakes up on the core of the calling one.
void clear_core(Pool* pool);
