// The threads of a pool, which help with calls, look for the next one for a moment, and sleep.
#define _GNU_SOURCE  // homes of threads
#include "team.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LEAST_URGENT = 19 };

void lock(Team* team)
{
    for (int i = 0; i < LOOKS; ++i) {
        if (pthread_mutex_trylock(&team->lock) == 0) return;
        pause_briefly();
    }
    pthread_mutex_lock(&team->lock);
}

void unlock(Team* team) { pthread_mutex_unlock(&team->lock); }

int wait_for_change(Team* team, int64_t until)
{
    const unsigned seen = read_word(&team->changes);
    unlock(team);
    const int changed = await_word(&team->changes, seen, until);
    lock(team);
    return changed;
}

void announce_change(Team* team) { change_word(&team->changes, EVERYONE); }

void drop_team(Team* team)
{
    const int owners = --team->owners;
    unlock(team);
    if (owners > 0) return;
    pthread_mutex_destroy(&team->lock);
    free(team);
}

static void bind(pthread_t thread, int core)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    pthread_setaffinity_np(thread, sizeof one, &one);
}

// Some kernels wake a thread on a core that is busy, that of its waker for one, where it waits for the
// end of a tick. So each thread goes to sleep on a core of its own, and is free to leave it once awake.
static void assign_homes(Team* team, int threads)
{
    team->spare = -1;
    for (int i = 0; i < threads; ++i) atomic_init(&team->member[i].home, -1);
    if (sched_getaffinity(0, sizeof team->cores, &team->cores) != 0) return;
    const int count = CPU_COUNT(&team->cores);
    if (threads >= count) return;
    int seen = 0, given = 0;  // homes are spread over the cores
    for (int core = 0; given <= threads; ++core) {
        if (!CPU_ISSET(core, &team->cores) || seen++ < given * count / (threads + 1)) continue;
        if (given < threads) {
            atomic_store(&team->member[given].home, core);
        } else {
            team->spare = core;
        }
        ++given;
    }
}

void clear_core(Team* team)
{
    if (team->closing) return;  // its threads may be gone
    const int here = sched_getcpu();
    for (int i = 0; i < team->threads && team->spare >= 0; ++i) {
        Member* member = &team->member[i];
        if (atomic_load(&member->home) != here) continue;
        atomic_store(&member->home, team->spare);
        if (atomic_load(&member->asleep)) bind(member->thread, team->spare);
        team->spare = here;
        return;
    }
}

static void sleep_at_home(Member* member, unsigned seen)
{
    const int home = atomic_load(&member->home);
    if (home >= 0) bind(pthread_self(), home);
    atomic_store(&member->asleep, 1);
    sleep_for_word(&member->team->news, seen, NEVER);
    atomic_store(&member->asleep, 0);
    if (home >= 0) pthread_setaffinity_np(pthread_self(), sizeof(cpu_set_t), &member->team->cores);
}

// Threads that copy for a GPU, launch its kernels or answer requests take little time on a core, and what
// waits for them is worth more: they go first wherever there are more threads than cores. A thread that
// wakes up gets the core of an idle-class thread at once; one that is merely nice keeps it for a while.
static void yield_to_others(void)
{
    const struct sched_param none = {0};
    setpriority(PRIO_PROCESS, syscall(SYS_gettid), LEAST_URGENT);
    pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
}

static void* work(void* argument)
{
    Member* member = argument;
    Team* team = member->team;
    if (team->yields) yield_to_others();
    lock(team);
    while (!team->closing) {
        const unsigned seen = read_word(&team->news);
        if (join_call(team)) continue;
        unlock(team);
        if (!look_for_word(&team->news, seen, NEVER)) sleep_at_home(member, seen);
        lock(team);
    }
    unlock(team);
    return NULL;
}

Team* open_team(int threads, int yields)
{
    Team* team = calloc(1, sizeof(Team) + threads * sizeof(Member));
    if (team == NULL) return NULL;
    team->yields = yields;
    pthread_mutex_init(&team->lock, NULL);
    team->owners = 1;
    assign_homes(team, threads);
    sigset_t all, before;  // signals are for the threads of whoever opens the team
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; team->threads < threads; ++team->threads) {
        Member* member = &team->member[team->threads];
        member->team = team;
        if (pthread_create(&member->thread, NULL, work, member) != 0) break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return team;
}

void close_team(Team* team)
{
    lock(team);
    team->closing = 1;
    change_word(&team->news, EVERYONE);
    announce_change(team);
    unlock(team);
    for (int i = 0; i < team->threads; ++i) pthread_join(team->member[i].thread, NULL);
    lock(team);
    drop_team(team);
}
