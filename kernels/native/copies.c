// Copies of matrices in host memory, each shared by several threads.
//
// A copy is a matrix of rows × columns elements, at any strides in bytes on either side. Rows whose
// elements lie close together on both sides are copied by memcpy; other layouts element by element,
// in squares small enough that both sides stay in the first cache.
//
// The threads of a team take part in all copies that are under way; so does each caller, in its own
// copy. They look for news for a moment after a copy, because the next piece of a matrix follows soon,
// and then sleep until there is one. A copy wakes as many as it may use. Where others want the cores,
// a team is limited: the rest of its threads sleep on, and those that are left do so sooner.
#include "copies.h"

#include "../../native/waiting.h"
#include "rows.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    COPIES = 4,  // under way at one time; one more waits
    CHUNK_BYTES = 128 << 10,
    SQUARE = 32,
    BRIEF_NANOSECONDS = 50000,  // awake behind a copy where others compute on the same cores
    SHORT_ROW = 4096,  // bytes; longer ones memcpy itself keeps out of the caches, and faster
};

typedef struct {
    char* target;
    const char* source;
    int64_t rows, columns;
    int64_t target_row, target_column;  // bytes from one element to the next
    int64_t source_row, source_column;
    int64_t item;  // bytes of an element
    int streams;  // whether rows go past the caches
    int64_t chunk_rows, chunk_columns, chunks_across;
    int64_t chunks;
    _Atomic int64_t next;
    atomic_int places;  // for helpers
} Copy;

typedef struct {
    atomic_int taken;  // by a caller
    _Atomic(Copy*) copy;
    atomic_int users;  // threads that may be looking at it
} Slot;

typedef struct {
    Team* team;
    int index;
    pthread_t thread;
} Member;

struct Team {
    Slot slots[COPIES];
    Word news;  // counts copies that began, and the end
    Word calls;  // counts what those who are not wanted may wait for
    atomic_int wanted;  // the first so many look for news
    _Atomic int64_t patience;  // nanoseconds that they stay awake for some
    atomic_int closing;
    int threads;
    Member member[];
};

// One more turn of a loop that waits for a thread: it may need this core.
static void wait_for_thread(unsigned* turns)
{
    if (++*turns % LOOKS == 0) {
        sched_yield();
    } else {
        pause_briefly();
    }
}

// memcpy of a length that the compiler knows is one move, at any alignment.
#define COPY_SQUARE(bytes)                                                      \
    for (int64_t i = 0; i < rows; ++i)                                          \
        for (int64_t j = 0; j < columns; ++j)                                   \
            memcpy(target + i * copy->target_row + j * copy->target_column,     \
                   source + i * copy->source_row + j * copy->source_column, bytes)

static void copy_square(const Copy* copy, char* target, const char* source, int64_t rows, int64_t columns)
{
    switch (copy->item) {
        case 1: COPY_SQUARE(1); break;
        case 2: COPY_SQUARE(2); break;
        case 4: COPY_SQUARE(4); break;
        default: COPY_SQUARE(8); break;
    }
}

static void copy_plain(char* target, const char* source, int64_t bytes) { memcpy(target, source, bytes); }

static void copy_chunk(const Copy* copy, int64_t chunk)
{
    const int64_t top = chunk / copy->chunks_across * copy->chunk_rows;
    const int64_t left = chunk % copy->chunks_across * copy->chunk_columns;
    const int64_t rows = least(copy->chunk_rows, copy->rows - top);
    const int64_t columns = least(copy->chunk_columns, copy->columns - left);
    char* target = copy->target + top * copy->target_row + left * copy->target_column;
    const char* source = copy->source + top * copy->source_row + left * copy->source_column;
    if (copy->target_column == copy->item && copy->source_column == copy->item) {
        void (*copy_row)(char*, const char*, int64_t) = copy->streams && rows > 1 && columns * copy->item <= SHORT_ROW ? stream_row : copy_plain;
        for (int64_t i = 0; i < rows; ++i) {
            copy_row(target + i * copy->target_row, source + i * copy->source_row, columns * copy->item);
        }
        if (copy_row == stream_row) finish_streaming();
        return;
    }
    for (int64_t i = 0; i < rows; i += SQUARE) {
        for (int64_t j = 0; j < columns; j += SQUARE) {
            copy_square(
                copy, target + i * copy->target_row + j * copy->target_column,
                source + i * copy->source_row + j * copy->source_column, least(SQUARE, rows - i),
                least(SQUARE, columns - j));
        }
    }
}

static void take_part(Copy* copy)
{
    for (;;) {
        const int64_t chunk = atomic_fetch_add(&copy->next, 1);
        if (chunk >= copy->chunks) return;
        copy_chunk(copy, chunk);
    }
}

// A slot's copy is gone only when nobody uses it, so a thread says first that it does.
static void look_around(Team* team)
{
    for (int i = 0; i < COPIES; ++i) {
        Slot* slot = &team->slots[i];
        if (atomic_load(&slot->copy) == NULL) continue;
        atomic_fetch_add(&slot->users, 1);
        Copy* copy = atomic_load(&slot->copy);
        if (copy != NULL && atomic_fetch_sub(&copy->places, 1) > 0) take_part(copy);
        atomic_fetch_sub(&slot->users, 1);
    }
}

static void* work(void* argument)
{
    Member* member = argument;
    Team* team = member->team;
    unsigned seen = 0;
    while (!atomic_load(&team->closing)) {
        const unsigned calls = read_word(&team->calls);
        if (member->index >= atomic_load(&team->wanted)) {
            sleep_for_word(&team->calls, calls, NEVER);
            continue;
        }
        const int64_t until = read_clock() + atomic_load(&team->patience);
        if (!look_for_word(&team->news, seen, until)) sleep_for_word(&team->news, seen, NEVER);
        seen = read_word(&team->news);
        look_around(team);
    }
    return NULL;
}

void wake_team(Team* team, int helpers) { change_word(&team->news, helpers); }

void limit_team(Team* team, int helpers, int shares_cores)
{
    atomic_store(&team->patience, shares_cores ? BRIEF_NANOSECONDS : AWAKE_NANOSECONDS);
    if (atomic_exchange(&team->wanted, helpers) == helpers) return;
    change_word(&team->calls, EVERYONE);
}

static Slot* take_slot(Team* team)
{
    for (unsigned turns = 0;; wait_for_thread(&turns)) {
        for (int i = 0; i < COPIES; ++i) {
            int expected = 0;
            if (atomic_compare_exchange_strong(&team->slots[i].taken, &expected, 1)) return &team->slots[i];
        }
    }
}

static void swap(int64_t* a, int64_t* b)
{
    const int64_t old = *a;
    *a = *b;
    *b = old;
}

// Cut a copy into chunks of whole rows, or of parts of rows that are longer than a chunk. Matrices
// that both lie in memory by columns are copied as their transposes.
static void cut(Copy* copy)
{
    if (copy->target_row == copy->item && copy->source_row == copy->item) {
        swap(&copy->rows, &copy->columns);
        swap(&copy->target_row, &copy->target_column);
        swap(&copy->source_row, &copy->source_column);
    }
    const int64_t chunk_items = CHUNK_BYTES / copy->item;
    const int plain = copy->target_column == copy->item && copy->source_column == copy->item;
    if (plain && copy->target_row == copy->columns * copy->item && copy->source_row == copy->target_row) {
        copy->columns *= copy->rows;
        copy->rows = 1;
    }
    // Where one side is stored by columns, chunks are as wide as high.
    const int64_t height = plain ? 1 : least(copy->rows, 8 * SQUARE);
    copy->chunk_columns = least(copy->columns, chunk_items / height);
    copy->chunk_rows = least(copy->rows, chunk_items / copy->chunk_columns);
    copy->chunks_across = divide_up(copy->columns, copy->chunk_columns);
    copy->chunks = copy->chunks_across * divide_up(copy->rows, copy->chunk_rows);
    atomic_init(&copy->next, 0);
}

void close_team(Team* team)
{
    atomic_store(&team->closing, 1);
    change_word(&team->news, EVERYONE);
    change_word(&team->calls, EVERYONE);
    for (int i = 0; i < team->threads; ++i) pthread_join(team->member[i].thread, NULL);
    free(team);
}

Team* open_team(int threads)
{
    Team* team = calloc(1, sizeof(Team) + threads * sizeof(Member));
    if (team == NULL) return NULL;
    atomic_init(&team->wanted, threads);
    atomic_init(&team->patience, AWAKE_NANOSECONDS);
    for (; team->threads < threads; ++team->threads) {
        Member* member = &team->member[team->threads];
        *member = (Member){.team = team, .index = team->threads};
        if (pthread_create(&member->thread, NULL, work, member) != 0) break;
    }
    return team;
}

// All of a copy, with the team.
static void share(Team* team, int helpers, Copy* copy)
{
    if (copy->rows == 0 || copy->columns == 0) return;
    cut(copy);
    atomic_init(&copy->places, helpers);
    if (copy->chunks == 1 || team->threads == 0 || helpers <= 0) {
        take_part(copy);
        return;
    }
    Slot* slot = take_slot(team);
    atomic_store(&slot->copy, copy);
    change_word(&team->news, helpers);
    take_part(copy);
    atomic_store(&slot->copy, NULL);
    for (unsigned turns = 0; atomic_load(&slot->users) != 0;) wait_for_thread(&turns);
    atomic_store(&slot->taken, 0);
}

void copy_matrix(
    Team* team, int helpers, char* target, int64_t target_row, int64_t target_column, const char* source,
    int64_t source_row, int64_t source_column, int64_t rows, int64_t columns, int64_t item)
{
    Copy copy = {
        .target = target, .source = source, .rows = rows, .columns = columns,
        .target_row = target_row, .target_column = target_column,
        .source_row = source_row, .source_column = source_column, .item = item,
    };
    share(team, helpers, &copy);
}

void stream_matrix(
    Team* team, int helpers, char* target, int64_t target_row, const char* source, int64_t source_row,
    int64_t source_column, int64_t rows, int64_t columns, int64_t item)
{
    Copy copy = {
        .target = target, .source = source, .rows = rows, .columns = columns,
        .target_row = target_row, .target_column = item,
        .source_row = source_row, .source_column = source_column, .item = item, .streams = 1,
    };
    share(team, helpers, &copy);
}
