/* The recorded exact bits of every path case, from the library's steps: every instruction set, chunkings, parts. */
#define _DEFAULT_SOURCE /* setenv */
#include "kernels/kernels.h"
#include "support.h"
#include "verify/feed.h"

#include <stdlib.h>
#include <string.h>

typedef struct hashes {
    uint64_t rows, outputs;
} hashes;

/* Of the recorded queries. */
static hashes hash_queries(const feed_run *run)
{
    const golden_case *c = run->c;
    hashes h = {GOLDEN_HASH_START, GOLDEN_HASH_START};
    uint32_t *row = test_alloc(c->config.budget + c->config.ratio, sizeof *row), n;
    for (size_t i = 0; i < c->queries; i++) {
        const size_t t = c->query[i];
        const uint32_t *groups = run->groups + t * run->groups_size;
        assert_int_equal(qsa_selected_tokens(groups, run->n_groups[t], c->config.ratio, t + 1, row, &n), QSA_OK);
        for (uint32_t j = 0; j < n; j++)
            h.rows = golden_hash_u32(h.rows, row[j]);
        h.outputs = golden_hash_floats(h.outputs, run->output + t * run->output_size, run->output_size);
    }
    free(row);
    return h;
}

static uint64_t recorded(const golden_record *record, const char *key)
{
    golden_error error = {{0}};
    uint64_t value = golden_hex(record, key, 0, &error);
    test_no_golden_error(&error);
    return value;
}

static uint64_t hash_stored(const golden_case *c, qsa_cache *cache, qsa_seq seq, qsa_tensor tensor)
{
    uint64_t n = tensor == QSA_TENSOR_POOLED ? c->n / c->config.ratio * c->config.ratio : c->n;
    size_t width = tensor == QSA_TENSOR_POOLED ? c->config.index_dim : (size_t)c->config.kv_heads * c->config.head_dim;
    uint64_t rows = tensor == QSA_TENSOR_POOLED ? n / c->config.ratio : n;
    float *values = test_alloc(rows * width, sizeof *values);
    qsa_span span = {c->anchor, c->anchor + (int64_t)n};
    assert_int_equal(qsa_seq_read(cache, seq, 0, tensor, span, values), QSA_OK);
    uint64_t hash = golden_hash_floats(GOLDEN_HASH_START, values, rows * width);
    free(values);
    return hash;
}

static void same(const char *name, const char *stage, const feed_options *o, uint64_t expected, uint64_t found)
{
    if (expected != found)
        fail_msg("%s, chunk %u, %u parts, QSA_ISA=%s: %s differ: %016llx, recorded %016llx", name, o->chunk, o->parts,
                 getenv("QSA_ISA"), stage, (unsigned long long)found, (unsigned long long)expected);
}

static void ok(qsa_status status)
{
    if (status != QSA_OK)
        fail_msg("%s: %s", qsa_status_name(status), qsa_error_detail());
}

/* The invariants of the cache hold after every chunk. */
static void feed_and_check(feed_run *run, const feed_options *options)
{
    const uint32_t n = run->c->n, chunk = options->chunk == 0 ? n : options->chunk;
    for (uint32_t first = 0; first < n; first += chunk) {
        ok(feed_tokens(run, first, n - first < chunk ? n : first + chunk, options));
        ok(qsa_cache_check(run->cache));
    }
}

static void replay_case(const golden_record *record, const golden_case *c, const feed_options *options)
{
    const char *name = golden_record_name(record);
    feed_run run;
    ok(feed_open(&run, c, options));
    feed_and_check(&run, options);
    if (c->window == 0) { /* otherwise the first tokens are gone */
        same(name, "pooled", options, recorded(record, "hash_pooled"),
             hash_stored(c, run.cache, run.seq, QSA_TENSOR_POOLED));
        same(name, "k_stored", options, recorded(record, "hash_k_stored"),
             hash_stored(c, run.cache, run.seq, QSA_TENSOR_K));
        same(name, "v_stored", options, recorded(record, "hash_v_stored"),
             hash_stored(c, run.cache, run.seq, QSA_TENSOR_V));
    }
    const hashes h = hash_queries(&run);
    same(name, "rows", options, recorded(record, "hash_rows"), h.rows);
    same(name, "outputs", options, recorded(record, "hash_outputs"), h.outputs);
    ok(qsa_seq_verify_index(run.cache, run.seq));
    feed_close(&run);
}

/* Cases of the released shape are slow in scalar code; there the AVX2 kernels, equal by their own tests, stand in. */
static bool affordable(const golden_case *c)
{
    return c->n <= 300 || strcmp(getenv("QSA_ISA"), "scalar") != 0;
}

static void replay_all(const feed_options *options, size_t n_options)
{
    golden_file *file = test_golden(QSA_GOLDEN_DIR, "canonical.txt");
    int replayed = 0;
    for (size_t i = 0; i < golden_record_count(file); i++) {
        const golden_record *record = golden_record_at(file, i);
        golden_error error = {{0}};
        golden_case c;
        if (!golden_is(record, "kind", "path"))
            continue;
        assert_true(golden_case_from_path(record, &c, &error));
        if (c.has_attention && affordable(&c)) {
            for (size_t o = 0; o < (c.n <= 300 ? n_options : 1); o++)
                replay_case(record, &c, &options[o]);
            replayed++;
        }
        golden_case_free(&c);
    }
    golden_free(file);
    assert_true(replayed >= 36);
}

static void every_chunking_and_part_count_gives_the_recorded_bits(void **state)
{
    (void)state;
    static const feed_options options[] = {{.parts = 2},
                                           {.parts = 1},
                                           {.parts = 3},
                                           {.parts = 8},
                                           {.chunk = 1, .parts = 1},
                                           {.chunk = 1, .parts = 3},
                                           {.chunk = 7, .parts = 2},
                                           {.chunk = 64, .parts = 5}};
    const qsa_kernels *kernels;
    for (size_t i = 0; (kernels = qsa_kernels_available(i)) != NULL; i++) {
        setenv("QSA_ISA", kernels->isa, 1);
        replay_all(options, sizeof options / sizeof *options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_chunking_and_part_count_gives_the_recorded_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
