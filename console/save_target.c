/* SPDX-License-Identifier: Apache-2.0 */
/* The file that a session is saved to: what stands there, and the room on its disk. */
#define _POSIX_C_SOURCE 200809L /* access, stat */
#include "console/save_target.h"

#include "console/memory.h"
#include "console/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

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

/* NULL, or why the file there must stay. */
static const char *reason_to_keep(const char *path)
{
    static const char magic[] = "QSASNAP\n";
    char found[sizeof magic - 1];
    struct stat about;
    if (stat(path, &about) != 0)
        return NULL;
    if (!S_ISREG(about.st_mode))
        return "not a regular file";
    if (about.st_size == 0)
        return NULL;
    FILE *file = fopen(path, "rb");
    if (!file)
        return strerror(errno);
    const bool is_snapshot =
        fread(found, 1, sizeof found, file) == sizeof found && memcmp(found, magic, sizeof found) == 0;
    fclose(file);
    return is_snapshot ? NULL : "a file that is no saved session is not replaced";
}

bool save_target_check(const char *command, const char *path)
{
    char *folder = folder_of(path);
    const char *reason = access(folder, W_OK | X_OK) == 0 ? reason_to_keep(path) : strerror(errno);
    free(folder);
    if (reason)
        options_say(command, "cannot save to %s: %s", path, reason);
    return !reason;
}

bool save_target_has_room(const char *command, const char *path, uint64_t bytes)
{
    char *folder = folder_of(path);
    struct statvfs disk;
    const bool is_known = statvfs(folder, &disk) == 0;
    free(folder);
    if (!is_known)
        return true;
    const double room = (double)disk.f_bavail * (double)disk.f_frsize;
    if (room >= (double)bytes)
        return true;
    options_say(command, "cannot save to %s: it takes up to %.1f MB, %.1f MB are free", path, (double)bytes / 1e6,
                room / 1e6);
    return false;
}
