/* SPDX-License-Identifier: Apache-2.0 */
/* The adapter: a layer in a ggml graph gives the bits of libqsa called directly, from strided views and on any number
 * of threads; errors leave as a status; bad shapes are refused while the graph is built. */
#include "support.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <math.h>
#include <qsa_ggml.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, Q_HEADS = 4, KV_HEADS = 2, DIM = 32, INDEX_HEADS = 2, INDEX_DIM = 16, TOKENS = 70 };
enum { Q_ROW = Q_HEADS * 2 * DIM, KV_ROW = KV_HEADS * DIM, INDEX_ROW = INDEX_HEADS * INDEX_DIM };
enum { MEMORY_BYTES = 1 << 20 };

/* Projections of one layer as an engine has them: per head a query and a gate; k and v in one tensor. */
typedef struct projections {
    float q_gate[TOKENS * Q_ROW], kv[TOKENS * 2 * KV_ROW], index_q[TOKENS * INDEX_ROW], raw_key[TOKENS * INDEX_DIM];
} projections;

static qsa_cache *new_cache(void)
{
    qsa_config config;
    qsa_config_init(&config);
    config.layers = LAYERS;
    config.q_heads = Q_HEADS;
    config.kv_heads = KV_HEADS;
    config.head_dim = DIM;
    config.index_heads = INDEX_HEADS;
    config.index_dim = INDEX_DIM;
    config.budget = 16;
    config.rotary_dim = 8;
    config.sections[0] = 2;
    config.sections[1] = config.sections[2] = 1;
    config.capacity_tokens = 256;
    config.max_step_tokens = TOKENS;
    qsa_cache *cache = NULL;
    assert_int_equal(qsa_cache_create(&config, &cache), QSA_OK);
    return cache;
}

static void fill(projections *p, uint64_t stream)
{
    test_fill(stream, p->q_gate, TOKENS * Q_ROW);
    test_fill(stream + 1, p->kv, TOKENS * 2 * KV_ROW);
    test_fill(stream + 2, p->index_q, TOKENS * INDEX_ROW);
    test_fill(stream + 3, p->raw_key, TOKENS * INDEX_DIM);
}

static qsa_step *begin(qsa_cache *cache, qsa_seq seq)
{
    const qsa_entry entry = {seq, 11, TOKENS, NULL};
    qsa_step *step = NULL;
    assert_int_equal(qsa_step_begin(cache, &entry, 1, &step), QSA_OK);
    return step;
}

/* ---- the same twice: by hand and in a graph ---- */

static void run_by_hand(projections *layers, float *out)
{
    qsa_cache *cache = new_cache();
    qsa_seq seq;
    assert_int_equal(qsa_seq_open(cache, &seq), QSA_OK);
    qsa_step *step = begin(cache, seq);
    for (uint32_t i = 0; i < LAYERS; i++) {
        const projections *p = &layers[i];
        const qsa_tensors tensors = {
            .q = {p->q_gate, Q_ROW, 2 * DIM},
            .k = {p->kv, 2 * KV_ROW, DIM},
            .v = {p->kv + KV_ROW, 2 * KV_ROW, DIM},
            .index_q = {p->index_q, INDEX_ROW, INDEX_DIM},
            .raw_key = {p->raw_key, INDEX_DIM, 0},
        };
        const qsa_output output = {out + (size_t)i * TOKENS * Q_HEADS * DIM, Q_HEADS * DIM, DIM};
        assert_int_equal(qsa_step_layer(step, i, &tensors, &output), QSA_OK);
    }
    assert_int_equal(qsa_step_commit(step, NULL), QSA_OK);
    qsa_cache_destroy(cache);
}

typedef struct fixture {
    struct ggml_context *context;
    struct ggml_cgraph *graph;
    qsa_cache *cache;
    qsa_seq seq;
    qsa_ggml_pass *pass;
    ggml_gallocr_t allocator;
    struct ggml_tensor *attention[LAYERS];
} fixture;

static struct ggml_tensor *leaf(fixture *f, float *data, int64_t row, int64_t rows)
{
    struct ggml_tensor *t = ggml_new_tensor_2d(f->context, GGML_TYPE_F32, row, rows);
    t->data = data;
    return t;
}

/* The projections go through a node of the graph first, so that their memory is the allocator's, which reuses it. */
static struct ggml_tensor *computed(fixture *f, float *data, int64_t row, int64_t rows)
{
    return ggml_scale(f->context, leaf(f, data, row, rows), 1.0f);
}

static qsa_ggml_sources sources_of(fixture *f, projections *p)
{
    const size_t size = sizeof(float);
    struct ggml_tensor *q = computed(f, p->q_gate, Q_ROW, TOKENS), *kv = computed(f, p->kv, 2 * KV_ROW, TOKENS);
    struct ggml_tensor *index_q = computed(f, p->index_q, INDEX_ROW, TOKENS);
    return (qsa_ggml_sources){
        .q = ggml_view_3d(f->context, q, DIM, Q_HEADS, TOKENS, 2 * DIM * size, q->nb[1], 0),
        .k = ggml_view_3d(f->context, kv, DIM, KV_HEADS, TOKENS, DIM * size, kv->nb[1], 0),
        .v = ggml_view_3d(f->context, kv, DIM, KV_HEADS, TOKENS, DIM * size, kv->nb[1], KV_ROW * size),
        .index_q = ggml_reshape_3d(f->context, index_q, INDEX_DIM, INDEX_HEADS, TOKENS),
        .raw_key = computed(f, p->raw_key, INDEX_DIM, TOKENS),
    };
}

static fixture new_fixture(void)
{
    fixture f = {.cache = new_cache()};
    const struct ggml_init_params params = {.mem_size = MEMORY_BYTES, .no_alloc = true};
    f.context = ggml_init(params);
    f.graph = ggml_new_graph(f.context);
    f.allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    assert_int_equal(qsa_seq_open(f.cache, &f.seq), QSA_OK);
    assert_int_equal(qsa_ggml_pass_create(f.cache, &f.pass), QSA_OK);
    return f;
}

static void free_fixture(fixture *f)
{
    ggml_gallocr_free(f->allocator);
    ggml_free(f->context);
    qsa_ggml_pass_destroy(f->pass);
    qsa_cache_destroy(f->cache);
}

static void build(fixture *f, projections *layers)
{
    for (uint32_t i = 0; i < LAYERS; i++) {
        const qsa_ggml_sources sources = sources_of(f, &layers[i]);
        assert_int_equal(qsa_ggml_layer(f->pass, f->context, i, &sources, &f->attention[i]), QSA_OK);
        f->attention[i] = ggml_scale(f->context, f->attention[i], 1.0f);
        ggml_set_output(f->attention[i]);
        ggml_build_forward_expand(f->graph, f->attention[i]);
    }
    assert_true(ggml_gallocr_alloc_graph(f->allocator, f->graph));
}

static void compute(fixture *f, int threads)
{
    struct ggml_cplan plan = ggml_graph_plan(f->graph, threads, NULL);
    plan.work_data = test_alloc(plan.work_size + 1, 1);
    assert_int_equal(ggml_graph_compute(f->graph, &plan), GGML_STATUS_SUCCESS);
    free(plan.work_data);
}

static projections *new_layers(void)
{
    projections *layers = test_alloc(LAYERS, sizeof *layers);
    fill(&layers[0], 10);
    fill(&layers[1], 20);
    return layers;
}

static void graph_gives_the_bits_of_libqsa(void **state)
{
    (void)state;
    projections *layers = new_layers();
    const size_t size = (size_t)TOKENS * Q_HEADS * DIM;
    float *expected = test_alloc(LAYERS * size, sizeof *expected);
    run_by_hand(layers, expected);
    for (int threads = 1; threads <= 3; threads++) {
        fixture f = new_fixture();
        build(&f, layers);
        qsa_step *step = begin(f.cache, f.seq);
        qsa_ggml_pass_run(f.pass, step, TOKENS);
        compute(&f, threads);
        assert_int_equal(qsa_ggml_pass_status(f.pass), QSA_OK);
        assert_string_equal(qsa_ggml_pass_detail(f.pass), "");
        assert_int_equal(qsa_step_commit(step, NULL), QSA_OK);
        for (int i = 0; i < LAYERS; i++)
            test_same_floats("attention", expected + (size_t)i * size, f.attention[i]->data, size);
        free_fixture(&f);
    }
    free(expected);
    free(layers);
}

static void graph_runs_again_after_an_abort(void **state)
{
    (void)state;
    projections *layers = new_layers();
    const size_t size = (size_t)TOKENS * Q_HEADS * DIM;
    float *expected = test_alloc(LAYERS * size, sizeof *expected);
    run_by_hand(layers, expected);
    fixture f = new_fixture();
    build(&f, layers);
    for (int run = 0; run < 2; run++) {
        qsa_step *step = begin(f.cache, f.seq);
        qsa_ggml_pass_run(f.pass, step, TOKENS);
        compute(&f, 1);
        assert_int_equal(qsa_ggml_pass_status(f.pass), QSA_OK);
        qsa_step_abort(step);
        test_same_floats("attention", expected + size, f.attention[1]->data, size);
    }
    free_fixture(&f);
    free(expected);
    free(layers);
}

/* ---- layers that are only stored ---- */

/* Runs the graph and commits; the digest of what is stored. */
static uint64_t stored_digest(fixture *f, int threads)
{
    uint64_t digest = 0;
    assert_true(ggml_gallocr_alloc_graph(f->allocator, f->graph));
    qsa_step *step = begin(f->cache, f->seq);
    qsa_ggml_pass_run(f->pass, step, TOKENS);
    compute(f, threads);
    assert_int_equal(qsa_ggml_pass_status(f->pass), QSA_OK);
    assert_int_equal(qsa_step_commit(step, NULL), QSA_OK);
    assert_int_equal(qsa_seq_digest(f->cache, f->seq, &digest), QSA_OK);
    return digest;
}

static void stored_layers_hold_what_others_hold(void **state)
{
    (void)state;
    projections *layers = new_layers();
    fixture whole = new_fixture();
    build(&whole, layers);
    const uint64_t expected = stored_digest(&whole, 1);
    free_fixture(&whole);
    for (int threads = 1; threads <= 3; threads++) {
        fixture f = new_fixture();
        for (uint32_t i = 0; i < LAYERS; i++) {
            qsa_ggml_sources sources = sources_of(&f, &layers[i]);
            sources.q = sources.index_q = NULL;
            struct ggml_tensor *done = NULL;
            assert_int_equal(qsa_ggml_layer_store(f.pass, f.context, i, &sources, &done), QSA_OK);
            ggml_build_forward_expand(f.graph, done);
        }
        qsa_counters counters;
        assert_true(stored_digest(&f, threads) == expected);
        assert_int_equal(qsa_cache_counters(f.cache, &counters), QSA_OK);
        assert_int_equal(counters.k_rows_read, 0);
        free_fixture(&f);
    }
    free(layers);
}

static void bad_sources_of_stored_layers_are_refused(void **state)
{
    (void)state;
    projections *layers = new_layers();
    fixture f = new_fixture();
    struct ggml_tensor *out = NULL;
    const qsa_ggml_sources good = sources_of(&f, &layers[0]);
    qsa_ggml_sources bad = good;
    bad.k = NULL;
    assert_int_equal(qsa_ggml_layer_store(f.pass, f.context, 0, &bad, &out), QSA_E_ARGUMENT);
    assert_memory_equal(qsa_ggml_pass_detail(f.pass), "k:", 2);
    bad = good;
    bad.v = good.q;
    assert_int_equal(qsa_ggml_layer_store(f.pass, f.context, 0, &bad, &out), QSA_E_ARGUMENT);
    assert_int_equal(qsa_ggml_layer_store(f.pass, f.context, LAYERS, &good, &out), QSA_E_ARGUMENT);
    assert_int_equal(qsa_ggml_layer_store(NULL, f.context, 0, &good, &out), QSA_E_ARGUMENT);
    assert_null(out);
    assert_int_equal(qsa_ggml_layer_store(f.pass, f.context, 0, &good, &out), QSA_OK);
    assert_int_equal(qsa_ggml_layer(f.pass, f.context, 0, &good, &out), QSA_E_ORDER);
    free_fixture(&f);
    free(layers);
}

/* ---- observing ---- */

static void note_phase(void *user, uint32_t phase)
{
    char *seen = user;
    const size_t n = strlen(seen);
    assert_true(n < 63);
    seen[n] = (char)('0' + phase);
}

static void an_observer_is_told_each_phase_in_order(void **state)
{
    (void)state;
    projections *layers = new_layers();
    for (int threads = 1; threads <= 3; threads++) {
        char seen[64] = "";
        fixture f = new_fixture();
        qsa_ggml_pass_observe(f.pass, note_phase, seen);
        build(&f, layers);
        (void)stored_digest(&f, threads);
        assert_string_equal(seen, "0123401234");
        free_fixture(&f);
    }
    free(layers);
}

/* ---- errors ---- */

static void bad_number_leaves_as_a_status(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        projections *layers = new_layers();
        layers[0].raw_key[33 * INDEX_DIM + 5] = NAN;
        layers[1].q_gate[0] = INFINITY; /* never looked at: the first error stays */
        fixture f = new_fixture();
        build(&f, layers);
        qsa_step *step = begin(f.cache, f.seq);
        qsa_ggml_pass_run(f.pass, step, TOKENS);
        compute(&f, threads);
        assert_int_equal(qsa_ggml_pass_status(f.pass), QSA_E_NONFINITE);
        assert_non_null(strstr(qsa_ggml_pass_detail(f.pass), "33"));
        assert_int_equal(qsa_step_commit(step, NULL), QSA_E_NONFINITE);
        qsa_seq_info info;
        assert_int_equal(qsa_seq_query(f.cache, f.seq, &info), QSA_OK);
        assert_int_equal(info.tokens, 0);
        free_fixture(&f);
        free(layers);
    }
}

static void gates_are_not_read(void **state)
{
    (void)state;
    projections *layers = new_layers();
    for (size_t i = 0; i < TOKENS * Q_HEADS; i++)
        for (size_t d = 0; d < DIM; d++)
            layers[0].q_gate[i * 2 * DIM + DIM + d] = NAN;
    fixture f = new_fixture();
    build(&f, layers);
    qsa_step *step = begin(f.cache, f.seq);
    qsa_ggml_pass_run(f.pass, step, TOKENS);
    compute(&f, 1);
    assert_int_equal(qsa_ggml_pass_status(f.pass), QSA_OK);
    qsa_step_abort(step);
    free_fixture(&f);
    free(layers);
}

static void tokens_of_step_and_graph_must_agree(void **state)
{
    (void)state;
    projections *layers = new_layers();
    fixture f = new_fixture();
    build(&f, layers);
    qsa_step *step = begin(f.cache, f.seq);
    qsa_ggml_pass_run(f.pass, step, TOKENS - 1);
    compute(&f, 2);
    assert_int_equal(qsa_ggml_pass_status(f.pass), QSA_E_ARGUMENT);
    assert_non_null(strstr(qsa_ggml_pass_detail(f.pass), "tokens"));
    qsa_step_abort(step);
    qsa_ggml_pass_run(f.pass, NULL, TOKENS);
    compute(&f, 1);
    assert_int_equal(qsa_ggml_pass_status(f.pass), QSA_E_ARGUMENT);
    free_fixture(&f);
    free(layers);
}

/* ---- shapes ---- */

static void assert_refused(fixture *f, const qsa_ggml_sources *sources, const char *name)
{
    struct ggml_tensor *out = NULL;
    assert_int_equal(qsa_ggml_layer(f->pass, f->context, 0, sources, &out), QSA_E_ARGUMENT);
    assert_null(out);
    assert_memory_equal(qsa_ggml_pass_detail(f->pass), name, strlen(name));
}

static void bad_sources_are_refused_by_name(void **state)
{
    (void)state;
    projections *layers = new_layers();
    fixture f = new_fixture();
    const qsa_ggml_sources good = sources_of(&f, &layers[0]);
    qsa_ggml_sources bad = good;
    bad.q = NULL;
    assert_refused(&f, &bad, "q:");
    bad = good;
    bad.raw_key = NULL;
    assert_refused(&f, &bad, "raw key:");
    bad = good;
    bad.k = good.q; /* other heads */
    assert_refused(&f, &bad, "k:");
    bad = good;
    bad.v = ggml_view_3d(f.context, good.v, DIM, KV_HEADS, TOKENS - 1, good.v->nb[1], good.v->nb[2], 0);
    assert_refused(&f, &bad, "v:");
    bad = good;
    bad.index_q = ggml_cast(f.context, good.index_q, GGML_TYPE_F16);
    assert_refused(&f, &bad, "index q:");
    bad = good;
    bad.raw_key = ggml_permute(f.context, computed(&f, layers[0].raw_key, TOKENS, INDEX_DIM), 1, 0, 2, 3);
    assert_refused(&f, &bad, "raw key:");
    free_fixture(&f);
    free(layers);
}

static void layers_are_those_of_the_cache_and_come_once(void **state)
{
    (void)state;
    projections *layers = new_layers();
    fixture f = new_fixture();
    struct ggml_tensor *out = NULL;
    const qsa_ggml_sources sources = sources_of(&f, &layers[0]);
    assert_int_equal(qsa_ggml_layer(f.pass, f.context, LAYERS, &sources, &out), QSA_E_ARGUMENT);
    assert_int_equal(qsa_ggml_layer(f.pass, f.context, 1, &sources, &out), QSA_OK);
    assert_int_equal(out->ne[0], Q_HEADS * DIM);
    assert_int_equal(out->ne[1], TOKENS);
    assert_int_equal(qsa_ggml_layer(f.pass, f.context, 1, &sources, &out), QSA_E_ORDER);
    qsa_ggml_pass_reset(f.pass);
    assert_int_equal(qsa_ggml_layer(f.pass, f.context, 1, &sources, &out), QSA_OK);
    assert_int_equal(qsa_ggml_layer(NULL, f.context, 1, &sources, &out), QSA_E_ARGUMENT);
    assert_int_equal(qsa_ggml_pass_create(NULL, &f.pass), QSA_E_ARGUMENT);
    free_fixture(&f);
    free(layers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graph_gives_the_bits_of_libqsa),
        cmocka_unit_test(graph_runs_again_after_an_abort),
        cmocka_unit_test(stored_layers_hold_what_others_hold),
        cmocka_unit_test(bad_sources_of_stored_layers_are_refused),
        cmocka_unit_test(an_observer_is_told_each_phase_in_order),
        cmocka_unit_test(bad_number_leaves_as_a_status),
        cmocka_unit_test(gates_are_not_read),
        cmocka_unit_test(tokens_of_step_and_graph_must_agree),
        cmocka_unit_test(bad_sources_are_refused_by_name),
        cmocka_unit_test(layers_are_those_of_the_cache_and_come_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
