// Waiting on words by Linux's futex. Unlike with a condition variable, a sleeper needs no lock to wake up,
// and any number of sleepers can be woken.
#include "waiting.h"

#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    LOST_NANOSECONDS = 1000000,  // least time without a core that is a loss: interrupts take less; chosen
    CROWDED_NANOSECONDS = 100000000,  // for which the machine counts as crowded, doubled each further time; chosen
    MOST_DOUBLINGS = 4,
    CROWDED_PATIENCE = 50000,  // nanoseconds to spin on a crowded machine; chosen
};

static _Atomic int64_t crowded_until;
static atomic_int losses, strikes;  // strikes: products in a row that lost cores

int is_crowded(void) { return read_clock() < atomic_load_explicit(&crowded_until, memory_order_relaxed); }

// A single loss may be chance. A product too short to lose a core says nothing.
void judge_product(int64_t nanoseconds)
{
    const int lost = atomic_exchange(&losses, 0);
    if (is_crowded() || (!lost && nanoseconds < 2 * LOST_NANOSECONDS)) return;
    const int now = lost ? atomic_load(&strikes) + 1 : 0;
    const int doublings = now - 2 < MOST_DOUBLINGS ? now - 2 : MOST_DOUBLINGS;
    if (now >= 2) atomic_store(&crowded_until, read_clock() + ((int64_t)CROWDED_NANOSECONDS << doublings));
    atomic_store(&strikes, now);
}

Moment read_moment(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (Moment){read_clock(), used.tv_sec * 1000000000LL + used.tv_nsec};
}

void note_since(Moment begin)
{
    if (read_clock() - begin.wall < LOST_NANOSECONDS) return;
    const Moment now = read_moment();
    if (now.wall - begin.wall - (now.used - begin.used) >= LOST_NANOSECONDS) atomic_fetch_add(&losses, 1);
}

int64_t find_patience(int64_t nanoseconds)
{
    return is_crowded() && nanoseconds > CROWDED_PATIENCE ? CROWDED_PATIENCE : nanoseconds;
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
