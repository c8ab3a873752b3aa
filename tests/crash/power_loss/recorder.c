/* A library that records what a program writes to the files of an SQLite database, and when it flushes them.
 *
 * The program is started with LD_PRELOAD, RECORD_DATABASE (the absolute path of the database file) and RECORD_JOURNAL (a file
 * that exists). Each call that writes, truncates or flushes the database file or its write-ahead log is made first, and then
 * appended to the journal. Of a flush both the beginning and the end are recorded: it covers what was recorded before its
 * beginning. Several programs can append to one journal. The format of an entry is `struct entry`, then `length` bytes.
 *
 * While the file RECORD_FAIL exists, flushes of the write-ahead log fail. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

struct __attribute__((packed)) entry {
    char kind; /* W write, T truncate, B flush begins, E flush ended */
    char file; /* d database, w write-ahead log */
    uint64_t position; /* W: offset, T: new length, B and E: number of the flush */
    uint32_t length;
};

/* Returns the letter of a file, or 0 if it is another file. */
static char letter(int descriptor) {
    const char *database = getenv("RECORD_DATABASE");
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (database == NULL || length < 0) return 0;
    path[length] = 0;
    size_t known = strlen(database);
    if (strncmp(path, database, known) != 0) return 0;
    if (path[known] == 0) return 'd';
    return strcmp(path + known, "-wal") == 0 ? 'w' : 0;
}

static void record(char kind, char file, uint64_t position, const void *bytes, uint32_t length) {
    static int journal = -1;
    if (journal < 0) {
        int opened = open(getenv("RECORD_JOURNAL"), O_WRONLY | O_APPEND | O_CLOEXEC);
        int none = -1;
        if (!__atomic_compare_exchange_n(&journal, &none, opened, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) close(opened);
    }
    struct entry entry = {kind, file, position, length};
    struct iovec parts[2] = {{&entry, sizeof entry}, {(void *)bytes, length}};
    if (writev(journal, parts, 2) != (ssize_t)(sizeof entry + length)) abort();
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int descriptor, const void *bytes, size_t count) {
    char file = letter(descriptor);
    off_t offset = file ? lseek(descriptor, 0, SEEK_CUR) : 0;
    ssize_t written = NEXT(write)(descriptor, bytes, count);
    if (file && written > 0) record('W', file, offset, bytes, written);
    return written;
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    ssize_t written = NEXT(pwrite)(descriptor, bytes, count, offset);
    char file = letter(descriptor);
    if (file && written > 0) record('W', file, offset, bytes, written);
    return written;
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) {
    ssize_t written = NEXT(pwrite64)(descriptor, bytes, count, offset);
    char file = letter(descriptor);
    if (file && written > 0) record('W', file, offset, bytes, written);
    return written;
}

int ftruncate(int descriptor, off_t length) {
    int result = NEXT(ftruncate)(descriptor, length);
    char file = letter(descriptor);
    if (file && result == 0) record('T', file, length, NULL, 0);
    return result;
}

int ftruncate64(int descriptor, off64_t length) {
    int result = NEXT(ftruncate64)(descriptor, length);
    char file = letter(descriptor);
    if (file && result == 0) record('T', file, length, NULL, 0);
    return result;
}

static int flush(int descriptor, int (*call)(int)) {
    static uint32_t flushes;
    char file = letter(descriptor);
    if (!file) return call(descriptor);
    if (file == 'w' && access(getenv("RECORD_FAIL"), F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    uint64_t number = ((uint64_t)getpid() << 32) | __atomic_add_fetch(&flushes, 1, __ATOMIC_SEQ_CST);
    record('B', file, number, NULL, 0);
    int result = call(descriptor);
    if (result == 0) record('E', file, number, NULL, 0);
    return result;
}

int fsync(int descriptor) { return flush(descriptor, NEXT(fsync)); }

int fdatasync(int descriptor) { return flush(descriptor, NEXT(fdatasync)); }
