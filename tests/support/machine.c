/* Calls kernels on behalf of another process, so that tests reach the kernels of another machine.

   Read from stdin: the name of a function (32 bytes), the number of arguments, and each argument: its
   size in bytes, and that many bytes of an array, or size -1 and a whole number. Answer on stdout: what
   was returned, and all arrays as they are then. All numbers are int64. Arrays end at a guard, and a
   kernel that writes beyond its array ends the process.

   A whole number or pointer takes 64 bits in the calling conventions of AArch64 on Linux and of x64
   Windows, in registers and on the stack, so one type of function serves for all kernels. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 20
#define GUARD 64
typedef int64_t number;
typedef number (*function)(number, number, number, number, number, number, number, number, number, number,
                           number, number, number, number, number, number, number, number, number, number);

#if defined(_WIN32) /* the library that is shipped */
#include <fcntl.h>
#include <io.h>
#include <windows.h>
static HMODULE library;
static void open_library(const char *path) {
    _setmode(_fileno(stdin), _O_BINARY);
    _setmode(_fileno(stdout), _O_BINARY);
    library = LoadLibraryA(path);
}
static function find(const char *name) { return library ? (function)GetProcAddress(library, name) : NULL; }
#else /* linked with the kernels, so that no loader and no C library of that machine is needed */
#define KERNELS(X) X(pairs) X(pack) X(count) X(dense) X(count_rows_narrow) X(count_rows_wide) X(count_lists) X(room_for)
#define DECLARE(name) extern number name##_base();
#define ENTRY(name) {#name "_base", (function)name##_base},
KERNELS(DECLARE)
extern number kernel_level();
static const struct { const char *name; function call; } table[] = {KERNELS(ENTRY){"kernel_level", (function)kernel_level}};
static void open_library(const char *path) { (void)path; }
static function find(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name)) return table[i].call;
    return NULL;
}
#endif

static void fail(const char *what, const char *name) {
    fprintf(stderr, "%s: %s\n", what, name);
    exit(1);
}

int main(int count, char **words) {
    char name[32], guard[GUARD];
    memset(guard, 0x5a, GUARD);
    open_library(count > 1 ? words[1] : "");
    while (fread(name, sizeof name, 1, stdin)) {
        number n, size[MOST], argument[MOST] = {0};
        function f = find(name);
        if (!f) fail("no such function", name);
        if (!fread(&n, sizeof n, 1, stdin) || n > MOST) fail("too many arguments", name);
        for (number i = 0; i < n; i++) {
            if (!fread(&size[i], sizeof *size, 1, stdin)) fail("incomplete", name);
            void *at = &argument[i];
            if (size[i] >= 0) {
                at = malloc((size_t)size[i] + GUARD);
                if (!at) fail("out of memory", name);
                memcpy((char *)at + size[i], guard, GUARD);
                argument[i] = (number)(intptr_t)at;
            }
            size_t bytes = size[i] >= 0 ? (size_t)size[i] : sizeof(number);
            if (fread(at, 1, bytes, stdin) != bytes) fail("incomplete", name);
        }
        const number *a = argument;
        number result = f(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12],
                          a[13], a[14], a[15], a[16], a[17], a[18], a[19]);
        fwrite(&result, sizeof result, 1, stdout);
        for (number i = 0; i < n; i++)
            if (size[i] >= 0) {
                char *at = (char *)(intptr_t)argument[i];
                if (memcmp(at + size[i], guard, GUARD)) fail("wrote beyond an array", name);
                fwrite(at, 1, (size_t)size[i], stdout);
                free(at);
            }
        fflush(stdout);
    }
    return 0;
}
