/* SPDX-License-Identifier: Apache-2.0 */
/* A file that appears under its name when it is whole, in place of an old one.
 *
 * Until then it has no name at all where the file system can do that (Linux, O_TMPFILE), so a process that is killed
 * leaves nothing; elsewhere it is PATH.PID.N.tmp beside the path. Replacing an old file takes a name for the moment
 * between two system calls, as only rename() replaces at once.
 *
 * Errors of all functions: QSA_E_IO and QSA_E_MEMORY; the detail begins with the path. */
#ifndef QSA_BASE_NEW_FILE_H
#define QSA_BASE_NEW_FILE_H

#include <qsa/status.h>
#include <sys/types.h>

typedef struct qsa_new_file {
    const char *path; /* the caller's, until qsa_new_file_close */
    int folder, descriptor;
    char *temporary;        /* NULL: without a name */
    off_t written, started; /* bytes so far, and those that are on their way to the disk */
} qsa_new_file;

/* Begins one. Only a regular file, or nothing, is ever replaced: never a device, a pipe or a folder. */
qsa_status qsa_new_file_open(const char *path, qsa_new_file *out_file);

qsa_status qsa_new_file_write(qsa_new_file *file, const void *bytes, size_t size_bytes);

/* With status QSA_OK everything goes to the disk and the file gets its name; otherwise it is dropped. Returns status,
 * or why the file is not there. An open file only. */
qsa_status qsa_new_file_close(qsa_new_file *file, qsa_status status);

/* What of a path a message shows: all of it, or the end of a very long one, so that what follows it is not cut off. */
const char *qsa_shown_path(const char *path);

#endif
