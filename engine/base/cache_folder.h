/* SPDX-License-Identifier: Apache-2.0 */
/* The user's cache folder of this program: $XDG_CACHE_HOME/qsa, else ~/.cache/qsa. */
#ifndef QSA_ENGINE_BASE_CACHE_FOLDER_H
#define QSA_ENGINE_BASE_CACHE_FOLDER_H

#include <qsa/status.h>

/* The path of a file in it, which the caller frees. Errors: QSA_E_IO (neither variable is set), QSA_E_MEMORY. */
qsa_status cache_folder_path(const char *name, char **out_path);

/* Creates the missing folders above an absolute path, which is as it was afterwards. Errors: QSA_E_IO. */
qsa_status cache_folder_make(char *path);

#endif
