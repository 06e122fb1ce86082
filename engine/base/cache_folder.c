/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "base/cache_folder.h"

#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* By the XDG base directory specification: a relative XDG_CACHE_HOME is ignored. */
qsa_status cache_folder_path(const char *name, char **out_path)
{
    const char *root = getenv("XDG_CACHE_HOME"), *below = "/qsa/";
    if (!root || root[0] != '/') {
        root = getenv("HOME");
        below = "/.cache/qsa/";
    }
    if (!root || !root[0])
        return engine_fail(QSA_E_IO, "no cache folder: neither XDG_CACHE_HOME nor HOME is set");
    const size_t room = strlen(root) + strlen(below) + strlen(name) + 1;
    char *path = malloc(room);
    if (!path)
        return engine_fail(QSA_E_MEMORY, "no memory for a path");
    snprintf(path, room, "%s%s%s", root, below, name);
    *out_path = path;
    return QSA_OK;
}

qsa_status cache_folder_make(char *path)
{
    assert(path != NULL);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int failed = mkdir(path, 0755) != 0 && errno != EEXIST;
        qsa_status status = failed ? engine_fail(QSA_E_IO, "cannot create %s: %s", path, strerror(errno)) : QSA_OK;
        *slash = '/';
        if (status != QSA_OK)
            return status;
    }
    return QSA_OK;
}
