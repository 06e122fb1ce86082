/* SPDX-License-Identifier: Apache-2.0 */
/* How evenly a layer's phases are dealt out: all parts of a phase run one after another on this thread, and each part's
 * time is taken, so that many parts can be judged on few cores.
 *
 * usage: bench_balance [--json]
 *
 * Of the released shape, one layer: a token at 262,144, a prompt chunk at 32,768, and one at the very beginning. For
 * each number of parts and each phase: the time of all parts together, that of the slowest, and the mean over the
 * slowest, which is the efficiency that the barrier after the phase allows. At the end of a line: how many times faster
 * than one part the whole layer would be, were every part to run on a core of its own that is as fast as this one.
 * Memory that the cores would have to share, and what barriers themselves cost, are not in it. Nor is help: a part that
 * is done takes units of one that has begun and is not, and here every other part is done or has not begun. What is
 * judged is the share that each starts with. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <qsa/qsa.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEPTH = 262144, CHUNK = 256, FEED = 512, MOST_PARTS = 64, ROUNDS = 7, POOL = 1 << 16, MASK = 8191 };

static void check(qsa_status status)
{
    if (status == QSA_OK)
        return;
    fprintf(stderr, "bench_balance: %s: %s\n", qsa_status_name(status), qsa_error_detail());
    exit(1);
}

/* Seconds that this thread has run. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float pool[POOL];

static void fill_pool(void)
{
    uint32_t x = 1;
    for (size_t i = 0; i < POOL; i++) {
        x = x * 1664525u + 1013904223u;
        pool[i] = (float)(x >> 8) * 0x1p-23f - 1.0f;
    }
}

/* Every token is another window of the pool. */
static qsa_tensors tensors_at(uint64_t token)
{
    const float *data = pool + (token * 7 & MASK);
    return (qsa_tensors){.q = {data, 1, 256},
                         .k = {data + 8000, 1, 300},
                         .v = {data + 10000, 1, 300},
                         .index_q = {data + 12000, 1, 130},
                         .raw_key = {data + 14000, 1, 0}};
}

static qsa_step *begin(qsa_cache *cache, qsa_seq seq, uint64_t at, uint32_t tokens, const qsa_output *out)
{
    const qsa_entry entry = {.seq = seq, .position = (int64_t)at, .tokens = tokens};
    const qsa_tensors tensors = tensors_at(at);
    qsa_step *step;
    check(qsa_step_begin(cache, &entry, 1, &step));
    check(qsa_layer_begin(step, 0, &tensors, out));
    return step;
}

static void feed(qsa_cache *cache, qsa_seq seq, uint64_t from, uint64_t to)
{
    const qsa_output none = {0};
    for (uint64_t at = from; at < to; at += FEED) {
        qsa_step *step = begin(cache, seq, at, FEED, &none);
        for (uint32_t phase = 0; phase < QSA_PHASES; phase++)
            check(qsa_layer_phase(step, phase, 0, 1));
        check(qsa_step_commit(step, NULL));
    }
}

/* ---- measuring ---- */

typedef struct times {
    double part[QSA_PHASES][MOST_PARTS]; /* the shortest of all rounds */
} times;

static void take_times(qsa_cache *cache, qsa_seq seq, uint64_t at, uint32_t tokens, uint32_t parts,
                       const qsa_output *out, times *t)
{
    for (int round = 0; round < ROUNDS; round++) {
        qsa_step *step = begin(cache, seq, at, tokens, out);
        for (uint32_t phase = 0; phase < QSA_PHASES; phase++)
            for (uint32_t part = 0; part < parts; part++) {
                const double start = now();
                check(qsa_layer_phase(step, phase, part, parts));
                const double seconds = now() - start;
                double *least = &t->part[phase][part];
                *least = round == 0 || seconds < *least ? seconds : *least;
            }
        qsa_step_abort(step);
    }
}

typedef struct phase_sums {
    double all, slowest;
} phase_sums;

static phase_sums sum_up(const double *part, uint32_t parts)
{
    phase_sums s = {0, 0};
    for (uint32_t i = 0; i < parts; i++) {
        s.all += part[i];
        s.slowest = part[i] > s.slowest ? part[i] : s.slowest;
    }
    return s;
}

static bool as_json;

static void print_phase(const char *work, uint32_t parts, uint32_t phase, phase_sums s)
{
    static const char *const names[QSA_PHASES] = {"append", "scan", "select", "compare", "attend"};
    const double efficiency = s.all / parts / s.slowest;
    if (as_json)
        printf("{\"name\": \"balance_%s\", \"parts\": %u, \"phase\": \"%s\", \"value\": %.6g, \"unit\": \"us\", "
               "\"ratio\": %.4f, \"probe\": %.6g, \"probe_unit\": \"us\"}\n",
               work, parts, names[phase], 1e6 * s.slowest, efficiency, 1e6 * s.all / parts);
    else
        printf(" | %9.1f %9.1f %5.2f", 1e6 * s.all, 1e6 * s.slowest, efficiency);
}

static void print_whole(const char *work, uint32_t parts, double alone, double together)
{
    if (as_json)
        printf("{\"name\": \"balance_%s\", \"parts\": %u, \"phase\": \"all\", \"value\": %.6g, \"unit\": \"us\", "
               "\"ratio\": %.4f, \"probe\": %.6g, \"probe_unit\": \"us\"}\n",
               work, parts, 1e6 * together, alone / together / parts, 1e6 * alone / parts);
    else
        printf(" | %6.2f\n", alone / together);
}

static void judge(qsa_cache *cache, qsa_seq seq, const char *work, uint64_t at, uint32_t tokens, const qsa_output *out)
{
    static const uint32_t counts[] = {1, 2, 4, 8, 16, 32, 64};
    static times t;
    double alone = 0;
    if (!as_json)
        printf("\n%s: microseconds of all parts, of the slowest; mean / slowest\n%5s | %-25s | %-25s | %-25s | %-25s | "
               "%-25s | "
               "%s\n",
               work, "parts", "append", "scan", "select", "compare", "attend", "times faster");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        take_times(cache, seq, at, tokens, counts[i], out, &t);
        double together = 0;
        if (!as_json)
            printf("%5u", counts[i]);
        for (uint32_t phase = 0; phase < QSA_PHASES; phase++) {
            const phase_sums s = sum_up(t.part[phase], counts[i]);
            together += s.slowest;
            print_phase(work, counts[i], phase, s);
        }
        alone = i == 0 ? together : alone;
        print_whole(work, counts[i], alone, together);
    }
}

int main(int argc, char **argv)
{
    as_json = argc > 1 && strcmp(argv[1], "--json") == 0;
    qsa_config config;
    qsa_config_init(&config);
    config.layers = 1;
    config.capacity_tokens = DEPTH + FEED;
    config.max_sequences = 1;
    config.max_step_tokens = FEED;
    config.max_parts = MOST_PARTS;
    const size_t out_token = (size_t)config.q_heads * config.head_dim;
    const qsa_output out = {calloc(CHUNK * out_token, sizeof(float)), out_token, config.head_dim};
    if (out.data == NULL)
        return 1;
    qsa_cache *cache;
    qsa_seq seq;
    fill_pool();
    check(qsa_cache_create(&config, &cache));
    check(qsa_seq_open(cache, &seq));
    judge(cache, seq, "prompt_at_0", 0, CHUNK, &out);
    feed(cache, seq, 0, 32768);
    judge(cache, seq, "prompt_at_32768", 32768, CHUNK, &out);
    feed(cache, seq, 32768, DEPTH);
    judge(cache, seq, "decode_at_262144", DEPTH, 1, &out);
    qsa_cache_destroy(cache);
    free(out.data);
    return 0;
}
