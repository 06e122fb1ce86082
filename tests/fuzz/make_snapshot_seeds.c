/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the seeds of the snapshot fuzzer: make_snapshot_seeds FOLDER (which exists). */
#include "snapshot_touch.h"

#include <stdio.h>

static int write_seed(const char *folder, int seed)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/seed-%d.qsa", folder, seed);
    mini_bytes bytes = snapshot_seed(seed);
    FILE *file = fopen(path, "wb");
    int failed = file == NULL || fwrite(bytes.data, 1, bytes.size, file) != bytes.size;
    if (file != NULL && fclose(file) != 0)
        failed = 1;
    mini_free(&bytes);
    if (failed)
        perror(path);
    return failed;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_snapshot_seeds FOLDER\n");
        return 2;
    }
    int failed = 0;
    for (int seed = 0; seed < SNAPSHOT_SEEDS && !failed; seed++)
        failed = write_seed(argv[1], seed);
    return failed;
}
