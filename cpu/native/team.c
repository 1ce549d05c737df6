// The threads of a pool, which help with calls, look for the next one for a moment, and sleep.
#include "team.h"

#include <signal.h>
#include <stdlib.h>

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

static void* work(void* argument)
{
    Team* team = argument;
    lock(team);
    while (!team->closing) {
        const unsigned seen = read_word(&team->news);
        if (join_call(team)) continue;
        unlock(team);
        await_word(&team->news, seen, NEVER);
        lock(team);
    }
    unlock(team);
    return NULL;
}

Team* open_team(int threads)
{
    Team* team = calloc(1, sizeof(Team) + threads * sizeof(pthread_t));
    if (team == NULL) return NULL;
    pthread_mutex_init(&team->lock, NULL);
    team->owners = 1;
    sigset_t all, before;  // signals are for the threads of whoever opens the team
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (team->threads < threads && pthread_create(&team->thread[team->threads], NULL, work, team) == 0) {
        ++team->threads;
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
    for (int i = 0; i < team->threads; ++i) pthread_join(team->thread[i], NULL);
    lock(team);
    drop_team(team);
}
