/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "file/digest_cache.h"

#include "base/cache_folder.h"
#include "base/new_file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* A file of the cache. */
typedef struct record {
    char magic[8];
    digest_key key;
    uint64_t digest;
    uint64_t check; /* XXH3 of all before */
} record;
_Static_assert(sizeof(record) == 80, "a file's layout has no padding");

static const char MAGIC[8] = {'q', 's', 'a', 'd', 'g', 's', 't', '1'};
enum { SETTLED_S = 2 /* the coarsest clock of a file system */ };

static record record_of(const digest_key *key, uint64_t digest)
{
    record r = {.key = *key, .digest = digest};
    memcpy(r.magic, MAGIC, sizeof MAGIC);
    r.check = XXH3_64bits(&r, sizeof r - sizeof r.check);
    return r;
}

static char *path_of(const digest_key *key)
{
    char name[32], *path = NULL;
    snprintf(name, sizeof name, "digest-%016" PRIx64, (uint64_t)XXH3_64bits(key, sizeof *key));
    return cache_folder_path(name, &path) == QSA_OK ? path : NULL;
}

bool digest_key_of(int descriptor, digest_key *out_key)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0)
        return false;
    *out_key = (digest_key){
        .device = (uint64_t)about.st_dev,
        .inode = (uint64_t)about.st_ino,
        .size_bytes = (uint64_t)about.st_size,
        .modified_s = (uint64_t)about.st_mtim.tv_sec,
        .modified_ns = (uint64_t)about.st_mtim.tv_nsec,
        .changed_s = (uint64_t)about.st_ctim.tv_sec,
        .changed_ns = (uint64_t)about.st_ctim.tv_nsec,
    };
    return true;
}

bool digest_key_is_settled(const digest_key *key)
{
    struct timespec now;
    return clock_gettime(CLOCK_REALTIME, &now) == 0 && (uint64_t)now.tv_sec > key->changed_s + SETTLED_S;
}

bool digest_cache_find(const digest_key *key, uint64_t *out_digest)
{
    record found, wanted;
    char *path = path_of(key);
    const int descriptor = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    free(path);
    if (descriptor < 0)
        return false;
    const bool is_whole = read(descriptor, &found, sizeof found) == (ssize_t)sizeof found;
    close(descriptor);
    if (!is_whole)
        return false;
    wanted = record_of(key, found.digest);
    if (memcmp(&found, &wanted, sizeof found) != 0)
        return false;
    *out_digest = found.digest;
    return true;
}

void digest_cache_keep(const digest_key *key, uint64_t digest)
{
    const record r = record_of(key, digest);
    char *path = path_of(key);
    qsa_new_file file;
    if (path != NULL && cache_folder_make(path) == QSA_OK && qsa_new_file_open(path, 0600, &file) == QSA_OK)
        (void)qsa_new_file_close(&file, qsa_new_file_write(&file, &r, sizeof r));
    free(path);
}
