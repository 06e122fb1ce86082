/* SPDX-License-Identifier: Apache-2.0 */
/* What verbs and snapshots cost at the released shape and 262,144 tokens, beside what the machine can do.
 *
 * usage: bench_lifecycle [TOKENS [FOLDER]]   with a FOLDER also a snapshot file there, against plain writes and reads
 *
 * 262,144 tokens take 7.3 GB of memory, and the folder the same twice. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <qsa/qsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 512, ROUNDS = 200, BLOCK_BYTES = 1 << 20, PATH_BYTES = 4096 };

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
    fprintf(stderr, "%s: %s\n", qsa_status_name(status), qsa_error_detail());
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

/* Time by the clock, and of the processor: on a busy machine the second says more. */
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

/* Every token is another window of one pool of numbers. */
static qsa_tensors tensors_at(const float *pool, uint64_t token)
{
    const float *data = pool + token % 4096;
    return (qsa_tensors){.k = {data, 1, 300}, .v = {data + 1000, 1, 300}, .raw_key = {data + 2000, 1, 0}};
}

static void feed(qsa_cache *cache, qsa_seq seq, uint64_t tokens, const float *pool)
{
    const qsa_output no_output = {0};
    qsa_config config;
    check(qsa_cache_config(cache, &config));
    for (uint64_t at = 0; at < tokens; at += CHUNK) {
        const qsa_entry entry = {.seq = seq, .position = (int64_t)at, .tokens = CHUNK};
        const qsa_tensors tensors = tensors_at(pool, at);
        qsa_step *step;
        check(qsa_step_begin(cache, &entry, 1, &step));
        for (uint32_t layer = 0; layer < config.layers; layer++)
            check(qsa_step_layer(step, layer, &tensors, &no_output));
        check(qsa_step_commit(step, NULL));
    }
}

static float *make_pool(void)
{
    float *pool = malloc(16384 * sizeof *pool);
    if (pool == NULL)
        exit(1);
    for (uint32_t i = 0, x = 1; i < 16384; i++) {
        x = x * 1664525u + 1013904223u;
        pool[i] = (float)(x >> 8) / 16777216.0f - 0.5f;
    }
    return pool;
}

/* ---- verbs ---- */

static double time_rewind(qsa_cache *cache, uint64_t length)
{
    double sum = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) { /* a fork each, so that the long one stays */
        qsa_seq fork, seq = {0, 1};
        check(qsa_seq_fork(cache, seq, (int64_t)length, &fork));
        double start = now();
        check(qsa_seq_rewind(cache, fork, (int64_t)length - 3));
        sum += now() - start;
        check(qsa_seq_close(cache, fork));
    }
    return sum / ROUNDS;
}

static double time_shift(qsa_cache *cache, uint64_t length)
{
    qsa_seq fork, seq = {0, 1};
    check(qsa_seq_fork(cache, seq, (int64_t)length, &fork));
    double start = now();
    for (uint32_t i = 0; i < ROUNDS; i++)
        check(qsa_seq_shift(cache, fork, i % 2 ? 7 : -7 * (i > 0)));
    double mean = (now() - start) / ROUNDS;
    check(qsa_seq_close(cache, fork));
    return mean;
}

static double time_fork(qsa_cache *cache, uint64_t length)
{
    double best = 1;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        qsa_seq fork, seq = {0, 1};
        double start = now();
        check(qsa_seq_fork(cache, seq, (int64_t)length, &fork));
        double took = now() - start;
        best = took < best ? took : best;
        check(qsa_seq_close(cache, fork));
    }
    return best;
}

static void print_verbs(qsa_cache *cache, uint64_t tokens)
{
    const uint64_t lengths[] = {1024, tokens / 4, tokens};
    qsa_counters before, after;
    check(qsa_cache_counters(cache, &before));
    printf("%-10s %12s %12s %12s\n", "tokens", "rewind us", "shift us", "fork us");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        printf("%-10llu %12.3f %12.3f %12.1f\n", (unsigned long long)lengths[i], 1e6 * time_rewind(cache, lengths[i]),
               1e6 * time_shift(cache, lengths[i]), 1e6 * time_fork(cache, lengths[i]));
    check(qsa_cache_counters(cache, &after));
    printf("pages copied by all of them: %llu\n", (unsigned long long)(after.pages_copied - before.pages_copied));
}

/* ---- snapshots ---- */

static void must_system(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

/* Forgets a file's cached pages, so that reading it asks the disk. */
static void forget(const char *path)
{
    int file = open(path, O_RDONLY);
    must_system(file >= 0, path);
    must_system(fsync(file) == 0 && posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0, path);
    close(file);
}

static lap plain_write(const char *path, uint64_t bytes)
{
    static uint32_t block[BLOCK_BYTES / 4];
    for (uint32_t i = 0, x = 1; i < BLOCK_BYTES / 4; i++)
        block[i] = x = x * 1664525u + 1013904223u;
    lap begin = lap_begin();
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must_system(file >= 0, path);
    for (uint64_t at = 0; at < bytes; at += BLOCK_BYTES) {
        block[0]++;
        must_system(write(file, block, BLOCK_BYTES) == BLOCK_BYTES, path);
    }
    must_system(fsync(file) == 0 && close(file) == 0, path);
    return lap_end(begin);
}

static lap plain_read(const char *path)
{
    static char block[BLOCK_BYTES];
    lap begin = lap_begin();
    int file = open(path, O_RDONLY);
    must_system(file >= 0, path);
    while (read(file, block, BLOCK_BYTES) > 0)
        ;
    close(file);
    return lap_end(begin);
}

static void print_pair(const char *what, double gb, lap ours, lap plain)
{
    printf("%-6s %6.2f GB/s, plain %6.2f GB/s, ratio %.2f; processor %.2f s per GB, plain %.2f\n", what, gb / ours.wall,
           gb / plain.wall, plain.wall / ours.wall, ours.cpu / gb, plain.cpu / gb);
}

/* Reads into a cache whose memory has been in use: with other tokens, so that nothing is right by chance. */
static void print_snapshots(qsa_cache *cache, uint64_t tokens, const float *pool, const char *folder)
{
    char path[PATH_BYTES], plain[PATH_BYTES];
    snprintf(path, sizeof path, "%s/qsa-bench.qsa", folder);
    snprintf(plain, sizeof plain, "%s/qsa-bench.plain", folder);
    qsa_seq seq = {0, 1};
    enum { BYTES_PER_TOKEN = 28428 };
    uint64_t before, after;
    qsa_snapshot snapshot;
    check(qsa_seq_digest(cache, seq, &before));
    plain_write(plain, tokens * BYTES_PER_TOKEN); /* a virtual machine pays for memory that was never touched */
    unlink(plain);
    lap save = lap_begin();
    check(qsa_snapshot_save(cache, &seq, 1, NULL, 0, 1, path));
    save = lap_end(save);
    check(qsa_seq_close(cache, seq));
    check(qsa_seq_open(cache, &seq));
    feed(cache, seq, tokens, pool + 1);
    check(qsa_seq_close(cache, seq));
    forget(path);
    lap load = lap_begin();
    check(qsa_snapshot_load(cache, 1, path, &snapshot));
    load = lap_end(load);
    check(qsa_seq_digest(cache, snapshot.sequences[0], &after));
    const uint64_t bytes = snapshot.size_bytes;
    qsa_snapshot_free(&snapshot);
    unlink(path);
    lap plain_out = plain_write(plain, bytes);
    forget(plain);
    lap plain_in = plain_read(plain);
    unlink(plain);
    printf("snapshot of %.2f GB, digest %s\n", 1e-9 * (double)bytes, before == after ? "equal" : "DIFFERENT");
    print_pair("write", 1e-9 * (double)bytes, save, plain_out);
    print_pair("read", 1e-9 * (double)bytes, load, plain_in);
}

/* ---- memory ---- */

static void print_memory(const qsa_config *config)
{
    qsa_memory_plan plan;
    check(qsa_plan_memory(config, &plan));
    double least =
        (double)config->layers * (2.0 * config->kv_heads * config->head_dim * 2 + 1.25 * config->index_dim * 2);
    printf("planned %llu bytes, allocated %llu: %s\n", (unsigned long long)plan.total_bytes,
           (unsigned long long)allocated_bytes, plan.total_bytes == allocated_bytes ? "equal" : "DIFFERENT");
    printf("per token %.1f bytes, at least %.1f (K, V, raw and pooled keys): ratio %.4f\n",
           (double)plan.total_bytes / (double)config->capacity_tokens, least,
           (double)plan.total_bytes / (double)config->capacity_tokens / least);
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
    float *pool = make_pool();
    check(qsa_cache_create(&config, &cache));
    print_memory(&config);
    qsa_cache_destroy(cache);
    config.allocator = NULL; /* the library's own, with huge pages */
    check(qsa_cache_create(&config, &cache));
    check(qsa_seq_open(cache, &seq));
    feed(cache, seq, tokens, pool);
    print_verbs(cache, tokens);
    if (argc > 2)
        print_snapshots(cache, tokens, pool, argv[2]);
    qsa_cache_destroy(cache);
    free(pool);
    return 0;
}
