// Waiting on words by Linux's futex. Unlike with a condition variable, a sleeper needs no lock to wake up,
// and any number of sleepers can be woken.
#define _GNU_SOURCE  // sched_getaffinity
#include "waiting.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    CROWDED_PATIENCE = 50000,  // nanoseconds to spin on a crowded machine; chosen
    FRESH = 100000,  // nanoseconds for which a count of running threads stands: to count takes 2000; chosen
    FRESH_OWN = 20000000,  // the same for this process's threads: to look at one takes some 5000; chosen
    FRESH_OWNER = 1000000000,  // the same for what all of them say, while a sample agrees; chosen
    LOOKED_AT = 64,  // most threads of this process that are looked at; chosen
    SAMPLE = 2,  // threads in a sample; chosen
};

static atomic_int nobody;
static atomic_int* awake = &nobody;

static int cores, own_cores;  // of the machine, and those that this process may use

void share_awake(atomic_int* count)
{
    cpu_set_t usable;
    awake = count;
    cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    own_cores = sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : cores;
}

void count_awake(int change) { atomic_fetch_add(awake, change); }

// Threads of all processes that can run now, by the system; 0 where it does not tell.
static int count_running(void)
{
    static atomic_int file = -1;
    if (atomic_load(&file) < 0) atomic_store(&file, open("/proc/loadavg", O_RDONLY | O_CLOEXEC));
    char text[64];
    const ssize_t size = pread(atomic_load(&file), text, sizeof text - 1, 0);
    int running = 0;
    text[size < 0 ? 0 : size] = 0;
    return sscanf(text, "%*s %*s %*s %d/", &running) == 1 ? running : 0;
}

// Whether a thread of this process can run now.
static int can_run(int thread)
{
    char text[512];
    snprintf(text, sizeof text, "/proc/self/task/%d/stat", thread);
    const int file = open(text, O_RDONLY | O_CLOEXEC);
    const ssize_t size = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    text[size < 0 ? 0 : size] = 0;
    const char* const name_end = strrchr(text, ')');  // the state follows
    return name_end != NULL && name_end[1] == ' ' && name_end[2] == 'R';
}

// Other threads of this process that could run when all were looked at.
static atomic_int sample[SAMPLE];

// Threads of this process that can run now, the calling one included; at most `most`. A process with PyTorch has some
// 250 threads, and to look at all takes a millisecond. They are listed by age, so BLAS's come early.
static int count_own_running(int most)
{
    DIR* const threads = opendir("/proc/self/task");
    if (threads == NULL) return 0;
    const int self = (int)syscall(SYS_gettid);
    int running = 0, looked_at = 0, others = 0;
    for (struct dirent* entry; running < most && looked_at++ < LOOKED_AT && (entry = readdir(threads)) != NULL;) {
        const int thread = atoi(entry->d_name), runs = thread > 0 && can_run(thread);
        running += runs;
        if (runs && thread != self && others < SAMPLE) atomic_store(&sample[others++], thread);
    }
    closedir(threads);
    return running;
}

// Whether a sample of this process's threads still says who wants the cores: all of them run, or none does.
static int agrees(int owner)
{
    int running = 0;
    for (int i = 0; i < SAMPLE; ++i) running += can_run(atomic_load(&sample[i]));
    return owner != QUIET && running == (owner == CONTENDED ? SAMPLE : 0);
}

// Who wants more than half of the cores, of so many threads that can run.
static int find_owner(int running)
{
    const int ours = 1 + atomic_load(awake);  // the calling thread, and those of pools
    const int fair = running - cores / 2;  // with so many of its own, others want half of the cores at most
    const int many = ours + own_cores / 2 + 1;  // so many want more than half of those it may use
    const int is_full = running - ours > cores / 2;
    const int own = count_own_running(is_full || fair > many ? fair : many);
    if (own < fair) return CROWDED;
    return is_full || own >= many ? CONTENDED : QUIET;
}

int find_crowd(void)
{
    static _Atomic int64_t counted, looked, looked_at_all;
    static atomic_int running, owner;
    const int64_t now = read_clock();
    if (now - atomic_load(&counted) >= FRESH) {
        atomic_store(&counted, now);
        atomic_store(&running, count_running());
    }
    if (atomic_load(&running) - 1 - atomic_load(awake) <= own_cores / 2) return QUIET;
    if (now - atomic_load(&looked) >= FRESH_OWN) {
        atomic_store(&looked, now);
        if (now - atomic_load(&looked_at_all) < FRESH_OWNER && agrees(atomic_load(&owner))) return atomic_load(&owner);
        atomic_store(&looked_at_all, now);
        atomic_store(&owner, find_owner(count_running()));
    }
    return atomic_load(&owner);
}

int64_t find_patience(int64_t nanoseconds)
{
    return nanoseconds > CROWDED_PATIENCE && find_crowd() != QUIET ? CROWDED_PATIENCE : nanoseconds;
}

int yield_core(void)
{
    const int64_t begin = read_clock();
    sched_yield();
    return read_clock() - begin > CROWDED_PATIENCE;
}

void wake_sleepers(Word* word, int sleepers)
{
    if (atomic_load(&word->sleeping) == 0) return;
    syscall(SYS_futex, &word->count, FUTEX_WAKE_PRIVATE, sleepers, NULL, NULL, 0);
}

// No wake-up is lost: a sleeper first adds itself to `sleeping`, then the system compares the count. So
// either the sleeper sees the new count, or this thread sees the sleeper.
void change_word(Word* word, int sleepers)
{
    atomic_fetch_add(&word->count, 1);
    wake_sleepers(word, sleepers);
}

// A thread that polls gives way to whoever wants its core, and then sleeps.
int look_for_word(Word* word, unsigned seen, int64_t nanoseconds)
{
    const int64_t until = read_clock() + find_patience(nanoseconds);
    do {
        for (int i = 0; i < PAUSES; ++i) {
            if (read_word(word) != seen) return 1;
            pause_briefly();
        }
    } while (read_clock() < until && !yield_core());
    return 0;
}

void sleep_for_word(Word* word, unsigned seen)
{
    while (read_word(word) == seen) {
        atomic_fetch_add(&word->sleeping, 1);
        syscall(SYS_futex, &word->count, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        atomic_fetch_sub(&word->sleeping, 1);
    }
}

void await_word(Word* word, unsigned seen)
{
    if (!look_for_word(word, seen, AWAKE_NANOSECONDS)) sleep_for_word(word, seen);
}

void await_nobody(atomic_int* count)
{
    const struct timespec nap = {0, NAP_NANOSECONDS};
    const int64_t until = read_clock() + find_patience(AWAKE_NANOSECONDS);
    int naps = 0;
    for (;;) {
        for (int i = 0; i < PAUSES; ++i) {
            if (atomic_load(count) == 0) return;
            pause_briefly();
        }
        naps = naps || read_clock() >= until || yield_core();
        if (naps) nanosleep(&nap, NULL);  // the awaited thread may need this core
    }
}
