// Waiting on words by Linux's futex. Unlike with a condition variable, a sleeper needs no lock to wake up,
// and any number of sleepers can be woken.
#include "waiting.h"

#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

int look_for_word(Word* word, unsigned seen, int64_t nanoseconds)
{
    const int64_t until = read_clock() + nanoseconds;
    for (;; sched_yield()) {
        for (int i = 0; i < PAUSES; ++i) {
            if (read_word(word) != seen) return 1;
            pause_briefly();
        }
        if (read_clock() >= until) return 0;
    }
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
    const int64_t latest = read_clock() + AWAKE_NANOSECONDS;
    for (;;) {
        for (int i = 0; i < PAUSES; ++i) {
            if (atomic_load(count) == 0) return;
            pause_briefly();
        }
        if (read_clock() < latest) {
            sched_yield();
        } else {
            nanosleep(&nap, NULL);  // the awaited thread may need this core
        }
    }
}
