/* SPDX-License-Identifier: Apache-2.0 */
/* The entry points of `qsa verify`. Both print a table on standard output and return whether nothing differed; what
 * prevents them from running is printed on standard error. */
#ifndef QSA_VERIFY_VERIFY_H
#define QSA_VERIFY_VERIFY_H

#include <stdbool.h>

/* Runs every check, prints a line each and a total; needs no data. quick: fewer and shorter cases. */
bool verify_suite(bool quick);

/* Replays every recorded case of a folder in the format of tests/golden/README.md, prints a line per file and
 * a total. */
bool verify_folder(const char *path);

#endif
