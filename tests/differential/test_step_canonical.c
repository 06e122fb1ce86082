/* The recorded exact bits of every path case, from the library's steps: every instruction set, chunkings, parts. */
#define _DEFAULT_SOURCE /* setenv */
#include "kernels/kernels.h"
#include "replay.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

typedef struct hashes {
    const golden_case *c;
    uint64_t rows, outputs;
} hashes;

static bool is_recorded(const golden_case *c, uint32_t token)
{
    for (size_t i = 0; i < c->queries; i++)
        if (c->query[i] == token)
            return true;
    return false;
}

static void add_query(void *user, uint32_t token, const uint32_t *groups, uint32_t n_groups, const float *output)
{
    hashes *h = user;
    const golden_case *c = h->c;
    if (!is_recorded(c, token))
        return;
    uint32_t *row = test_alloc(c->budget + c->ratio, sizeof *row), n;
    assert_int_equal(qsa_row(groups, n_groups, c->ratio, token + 1, row, &n), QSA_OK);
    for (uint32_t i = 0; i < n; i++)
        h->rows = golden_hash_u32(h->rows, row[i]);
    h->outputs = golden_hash_floats(h->outputs, output, (size_t)c->q_heads * c->head_dim);
    free(row);
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
    uint64_t n = tensor == QSA_TENSOR_POOLED ? c->n / c->ratio * c->ratio : c->n;
    size_t width = tensor == QSA_TENSOR_POOLED ? c->index_dim : (size_t)c->kv_heads * c->head_dim;
    uint64_t rows = tensor == QSA_TENSOR_POOLED ? n / c->ratio : n;
    float *values = test_alloc(rows * width, sizeof *values);
    qsa_span span = {c->anchor, c->anchor + (int64_t)n};
    assert_int_equal(qsa_seq_read(cache, seq, 0, tensor, span, values), QSA_OK);
    uint64_t hash = golden_hash_floats(GOLDEN_HASH_START, values, rows * width);
    free(values);
    return hash;
}

static void same(const char *name, const char *stage, replay_options o, uint64_t expected, uint64_t found)
{
    if (expected != found)
        fail_msg("%s, chunk %u, %u parts, QSA_ISA=%s: %s differ: %016llx, recorded %016llx", name, o.chunk, o.parts,
                 getenv("QSA_ISA"), stage, (unsigned long long)found, (unsigned long long)expected);
}

static void replay_case(const golden_record *record, const golden_case *c, replay_options options)
{
    const char *name = golden_record_name(record);
    qsa_norm_weights norms;
    qsa_config config = replay_config(c, &norms);
    qsa_cache *cache;
    assert_int_equal(qsa_cache_create(&config, &cache), QSA_OK);
    hashes h = {.c = c, .rows = GOLDEN_HASH_START, .outputs = GOLDEN_HASH_START};
    qsa_seq seq = replay_run(c, cache, options, add_query, &h);
    if (c->window == 0) { /* otherwise the first tokens are gone */
        same(name, "pooled", options, recorded(record, "hash_pooled"), hash_stored(c, cache, seq, QSA_TENSOR_POOLED));
        same(name, "k_stored", options, recorded(record, "hash_k_stored"), hash_stored(c, cache, seq, QSA_TENSOR_K));
        same(name, "v_stored", options, recorded(record, "hash_v_stored"), hash_stored(c, cache, seq, QSA_TENSOR_V));
    }
    same(name, "rows", options, recorded(record, "hash_rows"), h.rows);
    same(name, "outputs", options, recorded(record, "hash_outputs"), h.outputs);
    assert_int_equal(qsa_seq_verify_index(cache, seq), QSA_OK);
    qsa_cache_destroy(cache);
}

/* Cases of the released shape are slow in scalar code; there the AVX2 kernels, equal by their own tests, stand in. */
static bool affordable(const golden_case *c)
{
    return c->n <= 300 || strcmp(getenv("QSA_ISA"), "scalar") != 0;
}

static void replay_all(const replay_options *options, size_t n_options)
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
        if (replay_possible(&c) && affordable(&c)) {
            for (size_t o = 0; o < (c.n <= 300 ? n_options : 1); o++)
                replay_case(record, &c, options[o]);
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
    static const replay_options options[] = {{0, 2}, {0, 1}, {0, 3}, {0, 8}, {1, 1}, {1, 3}, {7, 2}, {64, 5}};
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
