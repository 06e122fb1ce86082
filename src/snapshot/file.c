/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots in files. */
#define _POSIX_C_SOURCE 200809L
#include "base/new_file.h"
#include "base/status.h"
#include "snapshot/source.h"

#include <errno.h>
#include <fcntl.h>
#include <qsa/snapshot.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static qsa_status system_error(const char *what)
{
    return qsa_fail(QSA_E_IO, "%s: %s", what, strerror(errno));
}

/* ---- save ---- */

static qsa_status write_file(void *context, const void *bytes, size_t size)
{
    return qsa_new_file_write(context, bytes, size);
}

qsa_status qsa_snapshot_save(const qsa_cache *cache, const qsa_seq *sequences, size_t n, const qsa_section *sections,
                             size_t n_sections, uint64_t model_digest, const char *path)
{
    if (path == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "snapshot: path is NULL");
    qsa_new_file file;
    QSA_TRY(qsa_new_file_open(path, 0600, &file));
    const qsa_writer writer = {write_file, &file};
    const qsa_status status =
        qsa_snapshot_stream(cache, sequences, n, sections, n_sections, model_digest, &writer, true);
    return qsa_new_file_close(&file, status);
}

/* ---- load ---- */

static qsa_status read_file(void *context, void *bytes, size_t size)
{
    const int *descriptor = context;
    char *at = bytes;
    while (size > 0) {
        ssize_t n = read(*descriptor, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return system_error("cannot read");
        if (n == 0)
            return qsa_fail(QSA_E_FORMAT, "snapshot: ends too early");
        at += n;
        size -= (size_t)n;
    }
    return QSA_OK;
}

static qsa_status open_regular(const char *path, int *out_descriptor)
{
    struct stat info;
    const int descriptor =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* does not block on a pipe without a writer */
    if (descriptor < 0)
        return system_error("cannot open");
    if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(descriptor);
        return qsa_fail(QSA_E_IO, "cannot read: not a regular file");
    }
    *out_descriptor = descriptor;
    return QSA_OK;
}

/* A snapshot is the whole file: bytes after it are an error. */
static qsa_status check_end(void *context)
{
    const int *descriptor = context;
    char byte;
    const ssize_t n = read(*descriptor, &byte, 1);
    if (n < 0)
        return system_error("cannot read");
    return n == 0 ? QSA_OK : qsa_fail(QSA_E_FORMAT, "snapshot: goes on after the end");
}

static qsa_status load_file(qsa_cache *cache, uint64_t model_digest, const char *path, qsa_snapshot *out_snapshot)
{
    int descriptor = -1;
    QSA_TRY(open_regular(path, &descriptor));
    const qsa_reader reader = {read_file, &descriptor};
    const qsa_status status = qsa_snapshot_restore(cache, model_digest, &reader, check_end, out_snapshot);
    close(descriptor);
    return status;
}

/* cache NULL: inspect. The detail of a failure begins with the path. */
static qsa_status load(qsa_cache *cache, uint64_t model_digest, const char *path, qsa_snapshot *out_snapshot)
{
    enum { DETAIL_BYTES = 512 };
    char detail[DETAIL_BYTES];
    if (path == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "snapshot: path is NULL");
    const qsa_status status = load_file(cache, model_digest, path, out_snapshot);
    if (status == QSA_OK)
        return QSA_OK;
    qsa_copy_detail(detail, sizeof detail);
    return qsa_fail(status, "%s: %s", qsa_shown_path(path), detail);
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
