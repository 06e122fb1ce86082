/* SPDX-License-Identifier: Apache-2.0 */
/* A file that appears under its name only when it is complete, and replaces an old one atomically.
 *
 * Until then it has no name where the file system can do that (Linux, O_TMPFILE), so a killed process leaves nothing;
 * elsewhere it is qsa.PID.N.tmp in the same folder. Replacing an old file takes a temporary name between two system
 * calls, because only rename() replaces atomically.
 *
 * Errors of all functions: QSA_E_IO and QSA_E_MEMORY; the detail begins with the path. */
#ifndef QSA_BASE_NEW_FILE_H
#define QSA_BASE_NEW_FILE_H

#include <qsa/status.h>
#include <sys/types.h>

enum { QSA_NEW_FILE_NAME_BYTES = 48 };

typedef struct qsa_new_file {
    const char *path;      /* the caller's, for messages; lives until qsa_new_file_close */
    char *target;          /* path, or the file that it links to */
    mode_t mode, old_mode; /* old_mode: of the file that is replaced; 0: there is none */
    int folder, descriptor;
    char temporary[QSA_NEW_FILE_NAME_BYTES]; /* in the folder; "": the file has no name */
    off_t written, started;                  /* bytes so far, and those whose writeback has started */
} qsa_new_file;

/* Creates the file, with this mode less the umask. Only a regular file, or nothing, is ever replaced: never a device, a
 * pipe or a folder. A file that is replaced keeps its mode; a symbolic link stays, and what it names is replaced. */
qsa_status qsa_new_file_open(const char *path, mode_t mode, qsa_new_file *out_file);

qsa_status qsa_new_file_write(qsa_new_file *file, const void *bytes, size_t size_bytes);

/* QSA_OK: syncs everything to disk and gives the file its name; any other status: drops it. Returns status, or the
 * error that kept the file from its name. Only for an open file. */
qsa_status qsa_new_file_close(qsa_new_file *file, qsa_status status);

/* A path as messages show it: all of it, or the end of a very long one, so that the rest of the message is not
 * cut off. */
const char *qsa_shown_path(const char *path);

#endif
