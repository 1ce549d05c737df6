/* Shifts the wall clock of a process that preloads this, by the seconds in the file $CLOCK_SHIFT.

   The file holds one int64_t and may change at any time. Clocks that do not step stay as they are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shift;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("CLOCK_SHIFT");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) abort();
    void *memory = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) abort();
    shift = memory;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    if (!shift) begin();
    int status = real(clock, found);
    if (!status && clock == CLOCK_REALTIME) found->tv_sec += *shift;
    return status;
}
