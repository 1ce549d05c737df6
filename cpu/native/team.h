// What the calls of a pool (pool.c) know of its threads (team.c).
#pragma once

#include "pool.h"
#include "../../native/waiting.h"

#include <pthread.h>
#include <sched.h>

typedef struct {
    Team* team;
    pthread_t thread;
    atomic_int home;  // the core that it sleeps on; -1 for any
    atomic_int asleep;
} Member;

struct Team {
    pthread_mutex_t lock;
    Word news;     // counts parts that were added, and the end
    Word changes;  // counts what those who are in a call may wait for
    Call* calls;
    int owners;  // whoever opened it, and the calls
    int closing;
    cpu_set_t cores;  // that may be used
    int spare;        // the one that is nobody's home; -1 where there are no homes
    int threads;
    int yields;  // whether the threads leave the cores to all others
    Member member[];
};

void lock(Team* team);

void unlock(Team* team);

// Wait for a change with the lock let go meanwhile; 0 where the time is over.
int wait_for_change(Team* team, int64_t until);

// Let those know who are in a call.
void announce_change(Team* team);

// See that no thread wakes up on the core of the calling one. Under the lock.
void clear_core(Team* team);

// Free the team when nobody has it any more; the lock is let go.
void drop_team(Team* team);

// Help with a call that has a place, as long as there is work; 0 if none has. Under the lock.
int join_call(Team* team);
