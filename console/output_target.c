/* SPDX-License-Identifier: Apache-2.0 */
/* What stands where a file is to be written, and the room on its disk. */
#define _POSIX_C_SOURCE 200809L /* access, stat, fileno */
#include "console/output_target.h"

#include "console/memory.h"
#include "console/options.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { MAX_MAGIC = 16, MAX_REASON = 80 };

static char *folder_of(const char *path)
{
    char *folder = memory_new(strlen(path) + 2, 1);
    const char *slash = strrchr(path, '/');
    if (slash)
        memcpy(folder, path, (size_t)(slash - path) + 1);
    else
        folder[0] = '.';
    return folder;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool is_stream(const struct stat *about, int descriptor)
{
    struct stat stream;
    return fstat(descriptor, &stream) == 0 && is_same(about, &stream);
}

static bool is_input(const output_target *t, const struct stat *about)
{
    struct stat input;
    return t->input && stat(t->input, &input) == 0 && is_same(about, &input);
}

/* An empty file may be replaced. */
static bool begins_with(const char *path, const char *magic)
{
    char found[MAX_MAGIC];
    const size_t length = strlen(magic);
    assert(length <= MAX_MAGIC);
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    const size_t n = fread(found, 1, length, file);
    const bool is_read = !ferror(file);
    fclose(file);
    return is_read && (n == 0 || (n == length && memcmp(found, magic, length) == 0));
}

/* False, and why the file there must stay. */
static bool may_replace(const output_target *t, char reason[MAX_REASON])
{
    struct stat about;
    reason[0] = '\0';
    if (stat(t->path, &about) != 0)
        return true;
    if (!S_ISREG(about.st_mode))
        strcpy(reason, "not a regular file");
    else if (is_input(t, &about) || is_stream(&about, STDIN_FILENO))
        strcpy(reason, "it is the file that is read");
    else if (is_stream(&about, STDOUT_FILENO) || is_stream(&about, STDERR_FILENO))
        strcpy(reason, "it receives the output");
    else if (!begins_with(t->path, t->magic))
        snprintf(reason, MAX_REASON, "a file that is no %s is not replaced", t->kind);
    return reason[0] == '\0';
}

bool output_target_check(const output_target *target)
{
    char reason[MAX_REASON];
    char *folder = folder_of(target->path);
    const bool is_open = access(folder, W_OK | X_OK) == 0;
    if (!is_open)
        snprintf(reason, sizeof reason, "%s", strerror(errno));
    free(folder);
    if (is_open && may_replace(target, reason))
        return true;
    options_say(target->command, "cannot write %s: %s", target->path, reason);
    return false;
}

bool output_target_has_room(const output_target *target, uint64_t bytes)
{
    char *folder = folder_of(target->path);
    struct statvfs disk;
    const bool is_known = statvfs(folder, &disk) == 0;
    free(folder);
    if (!is_known)
        return true;
    const double room = (double)disk.f_bavail * (double)disk.f_frsize;
    if (room >= (double)bytes)
        return true;
    options_say(target->command, "cannot write %s: it takes up to %.1f MB, %.1f MB are free", target->path,
                (double)bytes / 1e6, room / 1e6);
    return false;
}
