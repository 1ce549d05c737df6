#define _GNU_SOURCE  // thread affinity
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

enum {
    SLOTS = 16,  // tasks on offer at a time, one for each caller; further callers work alone; chosen
};

struct Slot {
    atomic_int taken;  // whether an owner has it
    _Atomic(Task*) task;
    atomic_int users;  // threads that may access the task
};

typedef struct {
    Pool* pool;
    int index;
    pthread_t thread;
    atomic_int home;  // core that it sleeps on; -1 for any
    atomic_int asleep;
} Member;

struct Pool {
    Slot slot[SLOTS];
    Word news;  // changes when places are added, and at the end
    Word limits;  // changes with `wanted`, and at the end; threads beyond the limit wait for it
    Word changes;  // changes inside tasks; threads within a task wait for it
    atomic_int wanted;  // only the first `wanted` threads look for tasks
    int64_t patience;  // nanoseconds that they stay awake without a task
    atomic_int closing;
    pthread_mutex_t lock;  // guards homes
    cpu_set_t cores;  // usable cores
    int spare;  // a core that is no thread's home; -1 without homes
    int threads;
    Member member[];
};

int is_closing(Pool* pool) { return atomic_load(&pool->closing); }

Word* find_changes(Pool* pool) { return &pool->changes; }

void offer_task(Pool* pool, Task* task)
{
    task->slot = NULL;
    for (int i = 0; i < SLOTS; ++i) {
        int expected = 0;
        if (!atomic_compare_exchange_strong(&pool->slot[i].taken, &expected, 1)) continue;
        task->slot = &pool->slot[i];
        atomic_store(&task->slot->task, task);
        return;
    }
}

static int count_wanted(Task* task, int most)
{
    const int places = atomic_load(&task->places);
    return places < most ? places : most;
}

void call_helpers(Pool* pool, Task* task, int most)
{
    const int wanted = count_wanted(task, most);
    if (wanted > 0) change_word(&pool->news, wanted);
}

void call_others(Pool* pool, Task* task, int most)
{
    const int wanted = count_wanted(task, most);
    if (wanted > 0) wake_sleepers(&pool->news, wanted);
}

void withdraw_task(Task* task)
{
    Slot* const slot = task->slot;
    if (slot == NULL) return;
    atomic_store(&slot->task, NULL);
    await_nobody(&slot->users);
    atomic_store(&slot->taken, 0);
}

// One atomic subtraction a thread, however many come at once. A thread that takes a place too many gives it back. In
// between another thread may miss a place that was added; that is harmless, because the first looks again.
static int take_place(Task* task)
{
    if (atomic_load(&task->places) <= 0) return 0;
    if (atomic_fetch_sub(&task->places, 1) > 0) return 1;
    atomic_fetch_add(&task->places, 1);
    return 0;
}

// Help with a task; 0 if none has a place. A task may disappear as soon as its slot has no users, so a
// thread registers as a user before it reads the task.
static int join_task(Pool* pool)
{
    for (int i = 0; i < SLOTS; ++i) {
        Slot* const slot = &pool->slot[i];
        if (atomic_load(&slot->task) == NULL) continue;
        atomic_fetch_add(&slot->users, 1);
        Task* const task = atomic_load(&slot->task);
        const int joins = task != NULL && take_place(task);
        if (joins) task->help(task);
        atomic_fetch_sub(&slot->users, 1);
        if (joins) return 1;
    }
    return 0;
}

static void bind(pthread_t thread, int core)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    pthread_setaffinity_np(thread, sizeof one, &one);
}

// Some Linux kernels wake a thread on a busy core, for example its waker's, where it waits for the end of
// a tick. So each thread sleeps bound to a core of its own, and is unbound once awake.
static void assign_homes(Pool* pool, int threads)
{
    if (sched_getaffinity(0, sizeof pool->cores, &pool->cores) != 0) return;
    const int count = CPU_COUNT(&pool->cores);
    if (threads >= count) return;
    int seen = 0, given = 0;  // homes are spread evenly over the cores
    for (int core = 0; given <= threads; ++core) {
        if (!CPU_ISSET(core, &pool->cores) || seen++ < given * count / (threads + 1)) continue;
        if (given < threads) {
            atomic_store(&pool->member[given].home, core);
        } else {
            pool->spare = core;
        }
        ++given;
    }
}

void clear_core(Pool* pool)
{
    pthread_mutex_lock(&pool->lock);
    const int here = is_closing(pool) ? -1 : sched_getcpu();  // a closed pool has no threads
    for (int i = 0; i < pool->threads && pool->spare >= 0; ++i) {
        Member* const member = &pool->member[i];
        if (here < 0 || atomic_load(&member->home) != here) continue;
        atomic_store(&member->home, pool->spare);
        if (atomic_load(&member->asleep)) bind(member->thread, pool->spare);
        pool->spare = here;
        break;
    }
    pthread_mutex_unlock(&pool->lock);
}

static void sleep_at_home(Member* member, unsigned seen)
{
    const int home = atomic_load(&member->home);
    if (home >= 0) bind(pthread_self(), home);
    atomic_store(&member->asleep, 1);
    count_awake(-1);
    sleep_for_word(&member->pool->news, seen);
    count_awake(1);
    atomic_store(&member->asleep, 0);
    if (home >= 0) pthread_setaffinity_np(pthread_self(), sizeof(cpu_set_t), &member->pool->cores);
}

static void* work(void* argument)
{
    Member* const member = argument;
    Pool* const pool = member->pool;
    count_awake(1);
    for (;;) {
        // Read the words first, so that any later change is noticed.
        const unsigned news = read_word(&pool->news), limits = read_word(&pool->limits);
        if (is_closing(pool)) break;
        if (member->index >= atomic_load(&pool->wanted)) {
            count_awake(-1);
            sleep_for_word(&pool->limits, limits);
            count_awake(1);
        } else if (!join_task(pool)) {
            if (!look_for_word(&pool->news, news, pool->patience)) sleep_at_home(member, news);
        }
    }
    count_awake(-1);
    return NULL;
}

void wake_pool(Pool* pool, int threads) { change_word(&pool->news, threads); }

void limit_pool(Pool* pool, int threads)
{
    if (atomic_exchange(&pool->wanted, threads) == threads) return;
    change_word(&pool->limits, EVERYONE);
}

static void start_threads(Pool* pool, int threads)
{
    sigset_t all, before;  // pool threads block all signals: the process's own threads handle them
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; pool->threads < threads; ++pool->threads) {
        Member* const member = &pool->member[pool->threads];
        member->pool = pool;
        member->index = pool->threads;
        if (pthread_create(&member->thread, NULL, work, member) != 0) break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

Pool* open_pool(int threads, int64_t awake_nanoseconds, int settles)
{
    Pool* const pool = calloc(1, sizeof(Pool) + threads * sizeof(Member));
    if (pool == NULL) return NULL;
    atomic_init(&pool->wanted, threads);
    pool->patience = awake_nanoseconds;
    pthread_mutex_init(&pool->lock, NULL);
    pool->spare = -1;
    for (int i = 0; i < threads; ++i) atomic_init(&pool->member[i].home, -1);
    if (settles) assign_homes(pool, threads);
    start_threads(pool, threads);
    return pool;
}

void close_pool(Pool* pool)
{
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->closing, 1);
    pthread_mutex_unlock(&pool->lock);
    change_word(&pool->news, EVERYONE);
    change_word(&pool->limits, EVERYONE);
    change_word(&pool->changes, EVERYONE);
    for (int i = 0; i < pool->threads; ++i) pthread_join(pool->member[i].thread, NULL);
}

void free_pool(Pool* pool)
{
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
