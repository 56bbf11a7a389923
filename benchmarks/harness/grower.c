/* Takes memory at a steady rate and notes after each step when that was and how much was in use.
 *
 *     grower NOTES PIPE USAGE STEP_KIB RATE_MIB MOST_MIB
 *
 * NOTES is a file shared with the process that watches (trial.py has the layout); PIPE is held open until death, so that its end
 * tells when that was; USAGE is a cgroup's counter, or /proc/meminfo, of which minus MemAvailable is noted: both rise.
 * SIGTERM is noted and obeyed at once. Past MOST_MIB it stops growing, and after 20 s in all it ends by itself.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct notes {
    volatile int64_t go, told_ns, count;
    struct { int64_t ns, used; } rows[];
};

static struct notes *notes;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void sleep_until(int64_t ns)
{
    struct timespec when = {ns / 1000000000, ns % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
}

static void told(int number)
{
    (void)number;
    notes->told_ns = now_ns();
    _exit(143);
}

static int64_t used(int usage, int is_meminfo)
{
    static char text[4096];
    ssize_t length = pread(usage, text, sizeof text - 1, 0);
    if (length <= 0)
        _exit(2);
    text[length] = 0;
    if (!is_meminfo)
        return atoll(text);
    char *line = strstr(text, "MemAvailable:");
    return line ? -1024 * atoll(line + strlen("MemAvailable:")) : 0;
}

int main(int argc, char **argv)
{
    if (argc != 7)
        return 2;
    int file = open(argv[1], O_RDWR), pipe = open(argv[2], O_WRONLY), usage = open(argv[3], O_RDONLY);
    struct stat status;
    if (file < 0 || pipe < 0 || usage < 0 || fstat(file, &status))
        return 2;
    int is_meminfo = !strcmp(argv[3], "/proc/meminfo");
    size_t step = atol(argv[4]) * 1024, most = atol(argv[6]) * 1048576;
    int64_t period_ns = step * INT64_C(1000000000) / (atol(argv[5]) * 1048576), end_ns = now_ns() + INT64_C(20000000000);
    notes = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char *memory = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (notes == MAP_FAILED || memory == MAP_FAILED)
        return 2;
    madvise(memory, most, MADV_NOHUGEPAGE); /* or it would grow in leaps of 2 MiB */
    signal(SIGTERM, told);
    if (write(pipe, "\n", 1) != 1)
        return 2;
    while (!notes->go && now_ns() < end_ns)
        sleep_until(now_ns() + 1000000);
    int64_t begin_ns = now_ns(), most_rows = (status.st_size - sizeof *notes) / sizeof notes->rows[0];
    for (int64_t row = 0; (row + 1) * step <= most && row < most_rows; row++) {
        memset(memory + row * step, 1, step);
        notes->rows[row].used = used(usage, is_meminfo);
        notes->rows[row].ns = now_ns();
        notes->count = row + 1;
        sleep_until(begin_ns + (row + 1) * period_ns);
    }
    sleep_until(end_ns);
    return 0;
}
