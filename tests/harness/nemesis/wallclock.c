/* Preloaded into a worker. Shifts its wall clock by the nanoseconds in a file, which can change at
any time. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t SECOND = 1000000000;
static const volatile int64_t *offset;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("ZKLOCK_TEST_WALL_CLOCK");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) offset = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    if (real_clock_gettime == NULL) begin();
    int failed = real_clock_gettime(clock, at);
    if (failed != 0 || offset == NULL || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return failed;
    int64_t shown = at->tv_sec * SECOND + at->tv_nsec + *offset;
    at->tv_sec = shown / SECOND;
    at->tv_nsec = shown % SECOND;
    return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    (void)zone;
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at != NULL) *at = now.tv_sec;
    return now.tv_sec;
}
