/* Preloaded into a server: its wall clock is off by as many nanoseconds as stand in the file $MUSTER_TEST_CLOCKS/<pid>.
 * The monotonic clock is left alone, as by a real step. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset_ns;

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("MUSTER_TEST_CLOCKS");
    char path[4096];
    if (folder == NULL || snprintf(path, sizeof path, "%s/%d", folder, (int)getpid()) >= (int)sizeof path) return;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return;
    if (ftruncate(file, sizeof *offset_ns) == 0) {
        void *found = mmap(NULL, sizeof *offset_ns, PROT_READ, MAP_SHARED, file, 0);
        if (found != MAP_FAILED) offset_ns = found;
    }
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && offset_ns != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = now->tv_nsec + *offset_ns % 1000000000;
        now->tv_sec += *offset_ns / 1000000000 + (ns < 0 ? -1 : ns / 1000000000);
        now->tv_nsec = ns < 0 ? ns + 1000000000 : ns % 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec at;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &at);
    now->tv_sec = at.tv_sec;
    now->tv_usec = at.tv_nsec / 1000;
    return result;
}

time_t time(time_t *now) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    if (now != NULL) *now = at.tv_sec;
    return at.tv_sec;
}
