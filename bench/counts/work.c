/* SPDX-License-Identifier: Apache-2.0 */
/* Fixed work whose instructions tools/check_counts.sh counts: append with pooling, scan with selection, row attention;
 * of one token at depth and of a prefill chunk there. One layer of Qwen3.8-Flash-Next's shape.
 *
 * usage: bench_counts               the work, in the order of the list below
 *        bench_counts --list        names of the counts, a line each
 *        bench_counts --compiler    what it was compiled with: family, major version, release or debug
 *        bench_counts --works       nothing; fails where the kernels that QSA_ISA names do not run */
#include <qsa/qsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 8192, FEED = 512, PROMPT = 16, POOL = 1 << 15, MASK = 4095 };

static const char *const NAMES[] = {"decode_append", "decode_scan", "decode_attend",
                                    "prompt_append", "prompt_scan", "prompt_attend"};

static void check(qsa_status status)
{
    if (status == QSA_OK)
        return;
    fprintf(stderr, "bench_counts: %s: %s\n", qsa_status_name(status), qsa_error_detail());
    exit(1);
}

enum { PHASE_APPEND = 0, PHASE_SCAN = 1, PHASE_ATTEND = QSA_PHASES - 1 };

/* Runs the phases [begin, end) of the layer. valgrind finds it by its name, so it stays a function. */
void counted(qsa_step *step, uint32_t begin, uint32_t end);

__attribute__((noinline)) void counted(qsa_step *step, uint32_t begin, uint32_t end)
{
    for (uint32_t phase = begin; phase < end; phase++)
        check(qsa_layer_phase(step, phase, 0, 1));
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

/* Every token takes another window of the pool. */
static qsa_tensors tensors_at(uint64_t token)
{
    const float *data = pool + (token * 7 & MASK);
    return (qsa_tensors){.q = {data, 1, 256},
                         .k = {data + 7000, 1, 300},
                         .v = {data + 8000, 1, 300},
                         .index_q = {data + 9000, 1, 130},
                         .raw_key = {data + 10000, 1, 0}};
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

static void feed(qsa_cache *cache, qsa_seq seq)
{
    const qsa_output none = {0};
    for (uint64_t at = 0; at < DEPTH; at += FEED) {
        qsa_step *step = begin(cache, seq, at, FEED, &none);
        for (uint32_t phase = 0; phase < QSA_PHASES; phase++)
            check(qsa_layer_phase(step, phase, 0, 1));
        check(qsa_step_commit(step, NULL));
    }
}

static void counted_step(qsa_cache *cache, qsa_seq seq, uint64_t at, uint32_t tokens, const qsa_output *out)
{
    qsa_step *step = begin(cache, seq, at, tokens, out);
    counted(step, PHASE_APPEND, PHASE_SCAN);
    counted(step, PHASE_SCAN, PHASE_ATTEND);
    counted(step, PHASE_ATTEND, QSA_PHASES);
    check(qsa_step_commit(step, NULL));
}

static qsa_config shape(uint64_t tokens)
{
    qsa_config config;
    qsa_config_init(&config);
    config.layers = 1;
    config.capacity_tokens = tokens;
    config.max_sequences = 1;
    config.max_step_tokens = FEED;
    return config;
}

/* Whether a cache can be made, as a status for the shell. */
static int works(void)
{
    const qsa_config config = shape(QSA_PAGE_TOKENS);
    qsa_cache *cache;
    if (qsa_cache_create(&config, &cache) != QSA_OK)
        return 1;
    qsa_cache_destroy(cache);
    return 0;
}

static void work(void)
{
    const qsa_config config = shape(DEPTH + 2 * QSA_PAGE_TOKENS);
    const size_t out_token = (size_t)config.q_heads * config.head_dim;
    const qsa_output out = {calloc(PROMPT * out_token, sizeof(float)), out_token, config.head_dim};
    if (out.data == NULL)
        exit(1);
    qsa_cache *cache;
    qsa_seq seq;
    fill_pool();
    check(qsa_cache_create(&config, &cache));
    check(qsa_seq_open(cache, &seq));
    feed(cache, seq);
    check(qsa_seq_rewind(cache, seq, DEPTH - 1)); /* the token completes a group, which is pooled */
    counted_step(cache, seq, DEPTH - 1, 1, &out);
    counted_step(cache, seq, DEPTH, PROMPT, &out);
    qsa_cache_destroy(cache);
    free(out.data);
}

static void print_compiler(void)
{
#if defined(__clang__)
    printf("clang %d", __clang_major__);
#else
    printf("gcc %d", __GNUC__);
#endif
#if defined(NDEBUG) && defined(__OPTIMIZE__)
    puts(" release");
#else
    puts(" debug");
#endif
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--compiler") == 0)
        print_compiler();
    else if (argc > 1 && strcmp(argv[1], "--list") == 0)
        for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
            puts(NAMES[i]);
    else if (argc > 1 && strcmp(argv[1], "--works") == 0)
        return works();
    else
        work();
    return 0;
}
