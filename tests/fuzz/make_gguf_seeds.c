/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the seeds of the GGUF fuzzer: make_gguf_seeds FOLDER (which exists). */
#include "gguf_bytes.h"

#include <stdio.h>
#include <stdlib.h>

static int write_seed(const char *folder, int seed)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/seed-%d.gguf", folder, seed);
    gguf_bytes bytes = {0};
    bytes_seed(&bytes, seed);
    FILE *file = fopen(path, "wb");
    int failed = !file || fwrite(bytes.data, 1, bytes.size, file) != bytes.size;
    if (file && fclose(file) != 0)
        failed = 1;
    free(bytes.data);
    if (failed)
        perror(path);
    return failed;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_gguf_seeds FOLDER\n");
        return 2;
    }
    int failed = 0;
    for (int seed = 0; seed < GGUF_SEEDS && !failed; seed++)
        failed = write_seed(argv[1], seed);
    return failed;
}
