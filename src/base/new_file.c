/* SPDX-License-Identifier: Apache-2.0 */
/* A file without a name until it is whole: O_TMPFILE and linkat, or a temporary name and rename. */
#if defined(__linux__)
#define _GNU_SOURCE /* O_TMPFILE, sync_file_range */
#endif
#define _XOPEN_SOURCE 700 /* realpath */
#include "base/new_file.h"

#include "base/status.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINK_BYTES = 40 };

const char *qsa_shown_path(const char *path)
{
    enum { MOST = 300 };
    const size_t length = strlen(path);
    return length > MOST ? path + length - MOST : path;
}

static qsa_status system_error(const qsa_new_file *file, const char *what)
{
    return qsa_fail(QSA_E_IO, "%s: %s: %s", qsa_shown_path(file->path), what, strerror(errno));
}

/* ---- open ---- */

/* Refuses an unusable name now, not after the work. */
static qsa_status take_path(qsa_new_file *file)
{
    struct stat info;
    if (file->path[0] == '\0')
        return qsa_fail(QSA_E_IO, "cannot create a file without a name");
    const bool is_there = stat(file->path, &info) == 0;
    if (!is_there && (errno != ENOENT || lstat(file->path, &info) == 0)) /* ENOENT also for a link to nothing */
        return system_error(file, "cannot create");
    if (is_there && !S_ISREG(info.st_mode))
        return qsa_fail(QSA_E_IO, "%s: cannot replace: not a regular file", qsa_shown_path(file->path));
    file->target = is_there ? malloc(PATH_MAX) : strdup(file->path);
    if (file->target == NULL)
        return qsa_fail(QSA_E_MEMORY, "%s: no memory for a path", qsa_shown_path(file->path));
    if (!is_there)
        return QSA_OK;
    file->old_mode = info.st_mode & 07777;
    return realpath(file->path, file->target) != NULL ? QSA_OK : system_error(file, "cannot create");
}

/* Keeps the folder open: its entry for the new name must reach the disk too. */
static qsa_status open_folder(qsa_new_file *file)
{
    char *folder = strdup(file->target);
    if (folder == NULL)
        return qsa_fail(QSA_E_MEMORY, "%s: no memory for a path", qsa_shown_path(file->path));
    char *slash = strrchr(folder, '/');
    if (slash == folder)
        slash[1] = '\0';
    else if (slash != NULL)
        *slash = '\0';
    file->folder = open(slash == NULL ? "." : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    return file->folder < 0 ? system_error(file, "cannot create") : QSA_OK;
}

/* The file's path in /proc, through which an unnamed file is linked. */
static void format_link(const qsa_new_file *file, char link[LINK_BYTES])
{
    snprintf(link, LINK_BYTES, "/proc/self/fd/%d", file->descriptor);
}

/* False if the file system, or a missing /proc, does not allow it. */
static bool open_without_name(qsa_new_file *file)
{
#if defined(O_TMPFILE)
    char link[LINK_BYTES];
    file->descriptor = openat(file->folder, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, file->mode);
    if (file->descriptor < 0)
        return false;
    format_link(file, link);
    if (access(link, F_OK) == 0)
        return true;
    close(file->descriptor);
    file->descriptor = -1;
#else
    (void)file;
#endif
    return false;
}

/* The next temporary name; nobody else should use it. It does not grow with the file's own name, which may be as long
 * as a folder allows. */
static void next_name(char name[QSA_NEW_FILE_NAME_BYTES])
{
    static atomic_uint counter;
    snprintf(name, QSA_NEW_FILE_NAME_BYTES, "qsa.%ld.%u.tmp", (long)getpid(), atomic_fetch_add(&counter, 1));
}

/* Creates the file under a temporary name, or links the unnamed one to it. Tries names until one is new: a killed
 * process with this one's number may have left its file. */
static qsa_status take_temporary_name(qsa_new_file *file)
{
    char link[LINK_BYTES];
    const bool is_new = file->descriptor < 0;
    bool is_named = false;
    format_link(file, link);
    do {
        next_name(file->temporary);
        if (is_new)
            is_named = (file->descriptor = openat(file->folder, file->temporary,
                                                  O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, file->mode)) >= 0;
        else
            is_named = linkat(AT_FDCWD, link, file->folder, file->temporary, AT_SYMLINK_FOLLOW) == 0;
    } while (!is_named && errno == EEXIST);
    if (is_named)
        return QSA_OK;
    file->temporary[0] = 0;
    return system_error(file, "cannot create");
}

static qsa_status create(qsa_new_file *file)
{
    QSA_TRY(take_path(file));
    QSA_TRY(open_folder(file));
    return open_without_name(file) ? QSA_OK : take_temporary_name(file);
}

static void release(qsa_new_file *file)
{
    if (file->descriptor >= 0)
        close(file->descriptor);
    if (file->folder >= 0)
        close(file->folder);
    free(file->target);
    *file = (qsa_new_file){.folder = -1, .descriptor = -1};
}

qsa_status qsa_new_file_open(const char *path, mode_t mode, qsa_new_file *out_file)
{
    assert(path != NULL && out_file != NULL);
    *out_file = (qsa_new_file){.path = path, .mode = mode, .folder = -1, .descriptor = -1};
    const qsa_status status = create(out_file);
    if (status != QSA_OK)
        release(out_file);
    return status;
}

/* ---- write ---- */

/* Starts the writeback while more is computed; otherwise all of it would wait for the sync at the end. Only a hint: the
 * sync alone makes the data durable. */
static void start_writing(qsa_new_file *file)
{
#if defined(__linux__)
    enum { PIECE_BYTES = 16 << 20 };
    if (file->written - file->started < PIECE_BYTES)
        return;
    (void)sync_file_range(file->descriptor, file->started, file->written - file->started, SYNC_FILE_RANGE_WRITE);
    file->started = file->written;
#else
    (void)file;
#endif
}

qsa_status qsa_new_file_write(qsa_new_file *file, const void *bytes, size_t size_bytes)
{
    const char *at = bytes;
    while (size_bytes > 0) {
        const ssize_t n = write(file->descriptor, at, size_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return system_error(file, "cannot write");
        at += n;
        size_bytes -= (size_t)n;
        file->written += n;
    }
    start_writing(file);
    return QSA_OK;
}

/* ---- close ---- */

/* Links the file directly under its name if that is free; it then never has another one. */
static bool link_to_path(const qsa_new_file *file)
{
    char link[LINK_BYTES];
    format_link(file, link);
    return file->temporary[0] == 0 && linkat(AT_FDCWD, link, AT_FDCWD, file->target, AT_SYMLINK_FOLLOW) == 0;
}

static qsa_status publish(qsa_new_file *file)
{
    if (file->old_mode != 0 && fchmod(file->descriptor, file->old_mode) != 0)
        return system_error(file, "cannot set the mode");
    if (fsync(file->descriptor) != 0)
        return system_error(file, "cannot sync");
    if (!link_to_path(file)) {
        if (file->temporary[0] == 0)
            QSA_TRY(take_temporary_name(file));
        if (renameat(file->folder, file->temporary, AT_FDCWD, file->target) != 0)
            return system_error(file, "cannot rename");
        file->temporary[0] = 0;
    }
    if (fsync(file->folder) != 0 && errno != EINVAL) /* EINVAL: the file system does not sync folders */
        return system_error(file, "cannot sync the folder");
    return QSA_OK;
}

qsa_status qsa_new_file_close(qsa_new_file *file, qsa_status status)
{
    assert(file->descriptor >= 0 && file->folder >= 0);
    if (status == QSA_OK)
        status = publish(file);
    if (file->temporary[0] != 0)
        unlinkat(file->folder, file->temporary, 0);
    release(file);
    return status;
}
