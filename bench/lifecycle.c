/* SPDX-License-Identifier: Apache-2.0 */
/* What fork, rewind, shift and snapshots cost at Qwen3.8-Flash-Next's shape, 12 layers.
 *
 * usage: bench_lifecycle [TOKENS [FOLDER]]   default 262144 tokens; with a FOLDER a snapshot is written and read there,
 *                                            beside plain writes and reads
 *
 * 262,144 tokens take 7.3 GB of memory, and twice that in the folder. */
#define _POSIX_C_SOURCE 200809L
#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <qsa/qsa.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 512, ROUNDS = 200, BLOCK_BYTES = 1 << 20, PATH_BYTES = 4096, POOL = 16384 };

static uint64_t allocated_bytes;

static void *count_allocate(void *context, size_t size_bytes, size_t alignment)
{
    (void)context;
    allocated_bytes += size_bytes;
    return aligned_alloc(alignment, (size_bytes + alignment - 1) / alignment * alignment);
}

static void count_release(void *context, void *memory, size_t size_bytes)
{
    (void)context;
    allocated_bytes -= size_bytes;
    free(memory);
}

static void check(qsa_status status)
{
    if (status == QSA_OK)
        return;
    fprintf(stderr, "bench_lifecycle: %s: %s\n", qsa_status_name(status), qsa_error_detail());
    exit(1);
}

static void check_system(bool ok, const char *path)
{
    if (ok)
        return;
    perror(path);
    exit(1);
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now(void)
{
    return seconds(CLOCK_MONOTONIC);
}

/* Wall-clock and processor seconds: on a busy machine the second says more. */
typedef struct lap {
    double wall, cpu;
} lap;

static lap lap_begin(void)
{
    return (lap){now(), seconds(CLOCK_PROCESS_CPUTIME_ID)};
}

static lap lap_end(lap begin)
{
    return (lap){now() - begin.wall, seconds(CLOCK_PROCESS_CPUTIME_ID) - begin.cpu};
}

/* ---- a long sequence ---- */

static float pool[POOL]; /* random; every token takes another window of it */

static void fill_pool(void)
{
    for (uint32_t i = 0, x = 1; i < POOL; i++) {
        x = x * 1664525u + 1013904223u;
        pool[i] = (float)(x >> 8) / 16777216.0f - 0.5f;
    }
}

static qsa_tensors tensors_at(uint64_t token)
{
    const float *data = pool + token % 4096;
    return (qsa_tensors){.k = {data, 1, 300}, .v = {data + 1000, 1, 300}, .raw_key = {data + 2000, 1, 0}};
}

/* `first`: another one gives other tokens. */
static void fill(qsa_cache *cache, qsa_seq seq, uint64_t tokens, uint64_t first)
{
    const qsa_output no_output = {0};
    qsa_config config;
    assert(tokens % CHUNK == 0);
    check(qsa_cache_config(cache, &config));
    for (uint64_t at = 0; at < tokens; at += CHUNK) {
        const qsa_entry entry = {.seq = seq, .position = (int64_t)at, .tokens = CHUNK};
        const qsa_tensors tensors = tensors_at(first + at);
        qsa_step *step;
        check(qsa_step_begin(cache, &entry, 1, &step));
        for (uint32_t layer = 0; layer < config.layers; layer++)
            check(qsa_step_layer(step, layer, &tensors, &no_output));
        check(qsa_step_commit(step, NULL));
    }
}

/* ---- verbs: seconds of a call ---- */

/* Each on a fork, so that the long sequence stays. */
static double time_rewind(qsa_cache *cache, qsa_seq seq, uint64_t length)
{
    double sum = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        qsa_seq fork;
        check(qsa_seq_fork(cache, seq, (int64_t)length, &fork));
        const double start = now();
        check(qsa_seq_rewind(cache, fork, (int64_t)length - 3));
        sum += now() - start;
        check(qsa_seq_close(cache, fork));
    }
    return sum / ROUNDS;
}

static double time_shift(qsa_cache *cache, qsa_seq seq, uint64_t length)
{
    qsa_seq fork;
    check(qsa_seq_fork(cache, seq, (int64_t)length, &fork));
    const double start = now();
    for (uint32_t i = 0; i < ROUNDS; i++)
        check(qsa_seq_shift(cache, fork, i % 2 ? 7 : -7 * (i > 0)));
    const double mean = (now() - start) / ROUNDS;
    check(qsa_seq_close(cache, fork));
    return mean;
}

/* The fastest of the rounds. */
static double time_fork(qsa_cache *cache, qsa_seq seq, uint64_t length)
{
    double best = 1;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        qsa_seq fork;
        const double start = now();
        check(qsa_seq_fork(cache, seq, (int64_t)length, &fork));
        const double took = now() - start;
        best = took < best ? took : best;
        check(qsa_seq_close(cache, fork));
    }
    return best;
}

static void print_verbs(qsa_cache *cache, qsa_seq seq, uint64_t tokens)
{
    const uint64_t lengths[] = {1024, tokens / 4, tokens};
    qsa_counters before, after;
    check(qsa_cache_counters(cache, &before));
    printf("%-10s %12s %12s %12s\n", "tokens", "rewind us", "shift us", "fork us");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        printf("%-10" PRIu64 " %12.3f %12.3f %12.1f\n", lengths[i], 1e6 * time_rewind(cache, seq, lengths[i]),
               1e6 * time_shift(cache, seq, lengths[i]), 1e6 * time_fork(cache, seq, lengths[i]));
    check(qsa_cache_counters(cache, &after));
    printf("pages copied by all of them: %" PRIu64 "\n", after.pages_copied - before.pages_copied);
}

/* ---- plain files ---- */

/* Drops a file from the page cache, so that reading it reads the disk. */
static void drop_cached(const char *path)
{
    const int file = open(path, O_RDONLY);
    check_system(file >= 0, path);
    check_system(fsync(file) == 0 && posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0, path);
    close(file);
}

static lap plain_write(const char *path, uint64_t bytes)
{
    static uint32_t block[BLOCK_BYTES / 4];
    for (uint32_t i = 0, x = 1; i < BLOCK_BYTES / 4; i++)
        block[i] = x = x * 1664525u + 1013904223u;
    const lap begin = lap_begin();
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    check_system(file >= 0, path);
    for (uint64_t at = 0; at < bytes; at += BLOCK_BYTES) {
        block[0]++;
        check_system(write(file, block, BLOCK_BYTES) == BLOCK_BYTES, path);
    }
    check_system(fsync(file) == 0 && close(file) == 0, path);
    return lap_end(begin);
}

static lap plain_read(const char *path)
{
    static char block[BLOCK_BYTES];
    const lap begin = lap_begin();
    const int file = open(path, O_RDONLY);
    check_system(file >= 0, path);
    while (read(file, block, BLOCK_BYTES) > 0)
        ;
    close(file);
    return lap_end(begin);
}

/* ---- snapshots ---- */

static lap save(qsa_cache *cache, qsa_seq seq, const char *path)
{
    const lap begin = lap_begin();
    check(qsa_snapshot_save(cache, &seq, 1, NULL, 0, 1, path));
    return lap_end(begin);
}

/* Digest and size of what was read. The snapshot's sequence stays open. */
static lap load(qsa_cache *cache, const char *path, uint64_t *out_digest, uint64_t *out_bytes)
{
    qsa_snapshot snapshot;
    drop_cached(path);
    const lap begin = lap_begin();
    check(qsa_snapshot_load(cache, 1, path, &snapshot));
    const lap took = lap_end(begin);
    check(qsa_seq_digest(cache, snapshot.sequences[0], out_digest));
    *out_bytes = snapshot.size_bytes;
    qsa_snapshot_free(&snapshot);
    return took;
}

static void print_pair(const char *what, double gb, lap ours, lap plain)
{
    printf("%-6s %6.2f GB/s, plain file %6.2f GB/s, ratio %.2f; processor %.2f s per GB, plain file %.2f\n", what,
           gb / ours.wall, gb / plain.wall, plain.wall / ours.wall, ours.cpu / gb, plain.cpu / gb);
}

/* Closes seq. The snapshot is read into a cache whose pages were filled with other tokens since. */
static void print_snapshots(qsa_cache *cache, qsa_seq seq, uint64_t tokens, const char *folder)
{
    char path[PATH_BYTES], plain[PATH_BYTES];
    snprintf(path, sizeof path, "%s/qsa-bench.qsa", folder);
    snprintf(plain, sizeof plain, "%s/qsa-bench.plain", folder);
    qsa_config config;
    qsa_memory_plan plan;
    uint64_t before, after, bytes;
    check(qsa_cache_config(cache, &config));
    check(qsa_plan_memory(&config, &plan));
    check(qsa_seq_digest(cache, seq, &before));
    plain_write(plain, tokens * plan.bytes_per_token); /* a virtual machine's first touch of memory costs more */
    unlink(plain);
    const lap saved = save(cache, seq, path);
    check(qsa_seq_close(cache, seq));
    check(qsa_seq_open(cache, &seq));
    fill(cache, seq, tokens, 1);
    check(qsa_seq_close(cache, seq));
    const lap loaded = load(cache, path, &after, &bytes);
    unlink(path);
    const lap plain_out = plain_write(plain, bytes);
    drop_cached(plain);
    const lap plain_in = plain_read(plain);
    unlink(plain);
    const double gb = 1e-9 * (double)bytes;
    printf("snapshot of %.2f GB, digest %s\n", gb, before == after ? "equal" : "DIFFERENT");
    print_pair("write", gb, saved, plain_out);
    print_pair("read", gb, loaded, plain_in);
}

/* ---- memory ---- */

static void print_memory(const qsa_config *config)
{
    qsa_memory_plan plan;
    check(qsa_plan_memory(config, &plan));
    const double least =
        (double)config->layers * (2.0 * config->kv_heads * config->head_dim * 2 + 1.25 * config->index_dim * 2);
    const double planned = (double)plan.total_bytes / (double)config->capacity_tokens;
    printf("planned %" PRIu64 " bytes, allocated %" PRIu64 ": %s\n", plan.total_bytes, allocated_bytes,
           plan.total_bytes == allocated_bytes ? "equal" : "DIFFERENT");
    printf("per token %.1f bytes; K, V, raw and pooled keys alone %.1f: ratio %.4f\n", planned, least, planned / least);
}

int main(int argc, char **argv)
{
    const uint64_t tokens = argc > 1 ? strtoull(argv[1], NULL, 10) / CHUNK * CHUNK : 262144;
    const qsa_allocator allocator = {count_allocate, count_release, NULL};
    qsa_config config;
    qsa_config_init(&config);
    config.capacity_tokens = tokens;
    config.max_sequences = 2;
    config.allocator = &allocator;
    qsa_cache *cache;
    qsa_seq seq;
    fill_pool();
    check(qsa_cache_create(&config, &cache));
    print_memory(&config);
    qsa_cache_destroy(cache);
    config.allocator = NULL; /* the library's own, with huge pages */
    check(qsa_cache_create(&config, &cache));
    check(qsa_seq_open(cache, &seq));
    fill(cache, seq, tokens, 0);
    print_verbs(cache, seq, tokens);
    if (argc > 2)
        print_snapshots(cache, seq, tokens, argv[2]);
    qsa_cache_destroy(cache);
    return 0;
}
