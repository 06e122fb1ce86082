/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots in files: a temporary file, synced, renamed; then the folder is synced. */
#define _POSIX_C_SOURCE 200809L
#if defined(__linux__)
#define _GNU_SOURCE /* sync_file_range */
#endif
#include "base/status.h"
#include "snapshot/source.h"

#include <errno.h>
#include <fcntl.h>
#include <qsa/snapshot.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct open_file {
    int descriptor;
    const char *path;
    off_t written, started; /* of a file that is written: bytes so far, and those that are on their way to the disk */
} open_file;

static qsa_status system_error(const char *what, const char *path)
{
    return qsa_fail(QSA_E_IO, "%s %s: %s", what, path, strerror(errno));
}

/* The disk begins to write while more is packed and hashed; otherwise it would wait for the sync at the end. Only a
 * hint: whether all is on disk is the sync's word. */
static void start_writing(open_file *file)
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

static qsa_status write_file(void *context, const void *bytes, size_t size)
{
    open_file *file = context;
    const char *at = bytes;
    while (size > 0) {
        ssize_t n = write(file->descriptor, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return system_error("cannot write", file->path);
        at += n;
        size -= (size_t)n;
        file->written += n;
    }
    start_writing(file);
    return QSA_OK;
}

static qsa_status read_file(void *context, void *bytes, size_t size)
{
    const open_file *file = context;
    char *at = bytes;
    while (size > 0) {
        ssize_t n = read(file->descriptor, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return system_error("cannot read", file->path);
        if (n == 0)
            return qsa_fail(QSA_E_FORMAT, "snapshot: %s ends too early", file->path);
        at += n;
        size -= (size_t)n;
    }
    return QSA_OK;
}

/* The folder's entry for the new name must be on disk too. */
static qsa_status open_folder(const char *path, int *out_descriptor)
{
    char *folder = strdup(path);
    if (folder == NULL)
        return qsa_fail(QSA_E_MEMORY, "no memory for a path");
    char *slash = strrchr(folder, '/');
    if (slash == folder)
        slash[1] = 0;
    else if (slash != NULL)
        *slash = 0;
    *out_descriptor = open(slash == NULL ? "." : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    return *out_descriptor < 0 ? system_error("cannot open the folder of", path) : QSA_OK;
}

/* Everything that can fail before the file is replaced does. */
static qsa_status replace(const char *temporary, const char *path)
{
    int folder = -1;
    QSA_TRY(open_folder(path, &folder));
    qsa_status status = QSA_OK;
    if (rename(temporary, path) != 0)
        status = system_error("cannot rename to", path);
    else if (fsync(folder) != 0 && errno != EINVAL) /* a file system that cannot sync folders has nothing to wait for */
        status = system_error("cannot sync the folder of", path);
    close(folder);
    return status;
}

/* A file of our own beside `path`. Names are tried until one is new: another thread or process may be saving to the
 * same path, and one that was killed may have left its file behind. file->path is to be freed. */
static qsa_status create_temporary(const char *path, open_file *file)
{
    static atomic_uint counter;
    const size_t size = strlen(path) + 48;
    char *name = malloc(size);
    *file = (open_file){.path = name, .descriptor = -1};
    if (name == NULL)
        return qsa_fail(QSA_E_MEMORY, "no memory for a path");
    do {
        snprintf(name, size, "%s.%ld.%u.tmp", path, (long)getpid(), atomic_fetch_add(&counter, 1));
        file->descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (file->descriptor < 0 && errno == EEXIST);
    return file->descriptor < 0 ? system_error("cannot create", name) : QSA_OK;
}

/* Only a file, or nothing, is replaced: never a device, a pipe or a folder. */
static qsa_status check_replaceable(const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return qsa_fail(QSA_E_IO, "cannot replace %s: not a regular file", path);
    return QSA_OK;
}

static qsa_status finish(const open_file *file, const char *path, qsa_status status)
{
    if (status == QSA_OK && fsync(file->descriptor) != 0)
        status = system_error("cannot sync", file->path);
    if (close(file->descriptor) != 0 && status == QSA_OK)
        status = system_error("cannot close", file->path);
    if (status == QSA_OK)
        status = replace(file->path, path);
    if (status != QSA_OK)
        unlink(file->path); /* gone already where only the last sync failed */
    return status;
}

qsa_status qsa_snapshot_save(const qsa_cache *cache, const qsa_seq *sequences, size_t n, const qsa_section *sections,
                             size_t n_sections, uint64_t model_digest, const char *path)
{
    if (path == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "snapshot: path is NULL");
    QSA_TRY(check_replaceable(path));
    open_file file;
    qsa_status status = create_temporary(path, &file);
    if (status == QSA_OK) {
        const qsa_writer writer = {write_file, &file};
        status = qsa_snapshot_write(cache, sequences, n, sections, n_sections, model_digest, &writer);
        status = finish(&file, path, status);
    }
    free((char *)(uintptr_t)file.path);
    return status;
}

static qsa_status open_regular(const char *path, open_file *out)
{
    if (path == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "snapshot: path is NULL");
    struct stat info;
    *out = (open_file){.path = path};
    out->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer must not hang us */
    if (out->descriptor < 0)
        return system_error("cannot open", path);
    if (fstat(out->descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(out->descriptor);
        return qsa_fail(QSA_E_IO, "cannot read %s: not a regular file", path);
    }
    return QSA_OK;
}

/* A snapshot is the whole file: more bytes behind it are a fault. */
static qsa_status check_end(void *context)
{
    const open_file *file = context;
    char byte;
    ssize_t n = read(file->descriptor, &byte, 1);
    if (n < 0)
        return system_error("cannot read", file->path);
    if (n > 0)
        return qsa_fail(QSA_E_FORMAT, "snapshot: %s goes on after the end", file->path);
    return QSA_OK;
}

static qsa_status load(qsa_cache *cache, uint64_t model_digest, const char *path, qsa_snapshot *out_snapshot)
{
    open_file file;
    QSA_TRY(open_regular(path, &file));
    const qsa_reader reader = {read_file, &file};
    qsa_status status = qsa_snapshot_restore(cache, model_digest, &reader, check_end, out_snapshot);
    close(file.descriptor);
    return status;
}

qsa_status qsa_snapshot_load(qsa_cache *cache, uint64_t model_digest, const char *path, qsa_snapshot *out_snapshot)
{
    if (cache == NULL || out_snapshot == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "snapshot: NULL argument");
    QSA_TRY(qsa_cache_idle(cache));
    return load(cache, model_digest, path, out_snapshot);
}

qsa_status qsa_snapshot_inspect_file(const char *path, qsa_snapshot *out_snapshot)
{
    if (out_snapshot == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "snapshot: NULL argument");
    return load(NULL, 0, path, out_snapshot);
}
