// Waiting for words by Linux's futex: unlike those of a condition, its sleepers wake up without
// queueing for a lock, and as many as are wanted.
#include "waiting.h"

#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NAP_NANOSECONDS = 20000 };

static const int64_t second = 1000000000;

void wake_sleepers(Word* word, int sleepers)
{
    if (atomic_load(&word->sleeping) == 0) return;
    syscall(SYS_futex, &word->count, FUTEX_WAKE_PRIVATE, sleepers, NULL, NULL, 0);
}

// Who goes to sleep says so first and then has the kernel compare the count; so one of the two sees
// what the other did.
void change_word(Word* word, int sleepers)
{
    atomic_fetch_add(&word->count, 1);
    wake_sleepers(word, sleepers);
}

static void sleep_once(Word* word, unsigned seen, int64_t nanoseconds)
{
    const struct timespec time = {nanoseconds / second, nanoseconds % second};
    atomic_fetch_add(&word->sleeping, 1);
    syscall(SYS_futex, &word->count, FUTEX_WAIT_PRIVATE, seen, &time, NULL, 0);
    atomic_fetch_sub(&word->sleeping, 1);
}

int look_for_word(Word* word, unsigned seen, int64_t until)
{
    const int64_t latest = read_clock() + AWAKE_NANOSECONDS;
    for (;; sched_yield()) {
        for (int i = 0; i < LOOKS; ++i) {
            if (read_word(word) != seen) return 1;
            pause_briefly();
        }
        const int64_t now = read_clock();
        if (now >= until || now >= latest) return 0;
    }
}

int sleep_for_word(Word* word, unsigned seen, int64_t until)
{
    while (read_word(word) == seen) {
        const int64_t now = read_clock();
        if (now >= until) return 0;
        sleep_once(word, seen, until - now);
    }
    return 1;
}

int await_word(Word* word, unsigned seen, int64_t until)
{
    return look_for_word(word, seen, until) || sleep_for_word(word, seen, until);
}

void await_nobody(atomic_int* count)
{
    const struct timespec nap = {0, NAP_NANOSECONDS};
    const int64_t latest = read_clock() + AWAKE_NANOSECONDS;
    for (;;) {
        for (int i = 0; i < LOOKS; ++i) {
            if (atomic_load(count) == 0) return;
            pause_briefly();
        }
        if (read_clock() < latest) {
            sched_yield();
        } else {
            nanosleep(&nap, NULL);  // whom it waits for may need this core
        }
    }
}
