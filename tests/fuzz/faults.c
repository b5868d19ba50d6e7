/* Faults of the system: preloaded, this fails or kills at the n-th operation that changes a folder.

   FAULT_FOLDER  the folder; operations elsewhere are left alone
   FAULT_AT      which operation, from 1 on; 0 for none
   FAULT_ERROR   the error number that it gets; 0 kills the process
   FAULT_LOG     a file to which the name of each operation is added */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int count;

static int inside(const char *path) {
    const char *folder = getenv("FAULT_FOLDER");
    return folder && strncmp(path, folder, strlen(folder)) == 0;
}

static int inside_file(int file) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return inside(path);
}

static int inside_of(int folder, const char *path) {
    return path[0] == '/' || folder == AT_FDCWD ? inside(path) : inside_file(folder);
}

/* Count an operation; return whether it must fail. */
static int fails(const char *name) {
    const char *at = getenv("FAULT_AT"), *error = getenv("FAULT_ERROR"), *log = getenv("FAULT_LOG");
    int own = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
    if (log) {
        long file = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND, 0644);
        syscall(SYS_write, file, name, strlen(name));
        syscall(SYS_write, file, "\n", 1L);
        syscall(SYS_close, file);
    }
    if (!at || own != atoi(at))
        return 0;
    if (!error || !atoi(error))
        kill(getpid(), SIGKILL);
    errno = atoi(error);
    return 1;
}

#define REAL(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))
#define WRITES(flags) ((flags) & (O_WRONLY | O_RDWR | O_CREAT))
#define OPEN(name)                                                                  \
    int name(const char *path, int flags, ...) {                                    \
        va_list rest;                                                               \
        va_start(rest, flags);                                                      \
        mode_t mode = va_arg(rest, mode_t);                                         \
        va_end(rest);                                                               \
        if (WRITES(flags) && inside(path) && fails("open"))                         \
            return -1;                                                              \
        return REAL(int, name, const char *, int, mode_t)(path, flags, mode);       \
    }
#define OPENAT(name)                                                                \
    int name(int folder, const char *path, int flags, ...) {                        \
        va_list rest;                                                               \
        va_start(rest, flags);                                                      \
        mode_t mode = va_arg(rest, mode_t);                                         \
        va_end(rest);                                                               \
        if (WRITES(flags) && inside_of(folder, path) && fails("open"))              \
            return -1;                                                              \
        return REAL(int, name, int, const char *, int, mode_t)(folder, path, flags, mode); \
    }
#define ON_FILE(type, name, given, taken, ...)                                      \
    type name given {                                                               \
        if (inside_file(file) && fails(#name))                                      \
            return -1;                                                              \
        return REAL(type, name, __VA_ARGS__) taken;                                 \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
ON_FILE(ssize_t, write, (int file, const void *from, size_t n), (file, from, n), int, const void *, size_t)
ON_FILE(ssize_t, writev, (int file, const struct iovec *from, int n), (file, from, n), int, const struct iovec *, int)
ON_FILE(ssize_t, pwrite64, (int file, const void *from, size_t n, off_t at), (file, from, n, at), int, const void *, size_t, off_t)
ON_FILE(int, fsync, (int file), (file), int)
ON_FILE(int, fdatasync, (int file), (file), int)
ON_FILE(int, ftruncate64, (int file, off_t n), (file, n), int, off_t)
ON_FILE(int, fchmod, (int file, mode_t mode), (file, mode), int, mode_t)

int rename(const char *from, const char *to) {
    if (inside(to) && fails("rename"))
        return -1;
    return REAL(int, rename, const char *, const char *)(from, to);
}
int renameat(int a, const char *from, int b, const char *to) {
    if (inside_of(b, to) && fails("rename"))
        return -1;
    return REAL(int, renameat, int, const char *, int, const char *)(a, from, b, to);
}
int unlink(const char *path) {
    if (inside(path) && fails("unlink"))
        return -1;
    return REAL(int, unlink, const char *)(path);
}
int unlinkat(int folder, const char *path, int flags) {
    if (inside_of(folder, path) && fails("unlink"))
        return -1;
    return REAL(int, unlinkat, int, const char *, int)(folder, path, flags);
}
int mkdir(const char *path, mode_t mode) {
    if (inside(path) && fails("mkdir"))
        return -1;
    return REAL(int, mkdir, const char *, mode_t)(path, mode);
}
int chmod(const char *path, mode_t mode) {
    if (inside(path) && fails("chmod"))
        return -1;
    return REAL(int, chmod, const char *, mode_t)(path, mode);
}
