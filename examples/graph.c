/* SPDX-License-Identifier: Apache-2.0 */
/* A QSA layer in a ggml graph of one's own: activations times a projection, attention, the output read back.
 *
 * The graph is built once for a token at a time and runs for each token of a made-up text. The query is a strided view
 * into the projection, which holds all five inputs of the layer side by side: nothing is copied. */
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <math.h>
#include <qsa_ggml.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 64, HEADS = 4, DIM = 32, INDEX_DIM = 32, TOKENS = 200, THREADS = 2 };
enum { Q = HEADS * DIM, ROWS = Q + DIM + DIM + INDEX_DIM + INDEX_DIM }; /* q, k, v, index q, raw key */

static void check(qsa_status status, const char *detail)
{
    if (status != QSA_OK) {
        fprintf(stderr, "graph: %s: %s\n", qsa_status_name(status), detail);
        exit(1);
    }
}

static qsa_cache *new_cache(void)
{
    qsa_config config;
    qsa_config_init(&config);
    config.layers = 1;
    config.q_heads = HEADS;
    config.kv_heads = 1;
    config.head_dim = DIM;
    config.index_heads = 1;
    config.index_dim = INDEX_DIM;
    config.rotary_dim = 16;
    config.sections[0] = 4;
    config.sections[1] = config.sections[2] = 2;
    config.budget = 64; /* sparse from the 69th token on */
    config.capacity_tokens = TOKENS;
    config.max_parts = THREADS;
    qsa_cache *cache = NULL;
    check(qsa_cache_create(&config, &cache), qsa_error_detail());
    return cache;
}

/* Made-up numbers. */
static void fill(struct ggml_tensor *t, float scale)
{
    for (int64_t i = 0; i < ggml_nelements(t); i++)
        ((float *)t->data)[i] = scale * (float)((i * 7919) % 1009 - 504) / 504.0f;
}

/* [dim, heads, 1] out of the projection [ROWS, 1], from row `first` on. */
static struct ggml_tensor *part(struct ggml_context *context, struct ggml_tensor *all, int dim, int heads, int first)
{
    return ggml_view_3d(context, all, dim, heads, 1, (size_t)dim * sizeof(float), all->nb[1],
                        (size_t)first * sizeof(float));
}

int main(void)
{
    qsa_cache *cache = new_cache();
    qsa_seq seq;
    qsa_ggml_pass *pass = NULL;
    check(qsa_seq_open(cache, &seq), qsa_error_detail());
    check(qsa_ggml_pass_create(cache, &pass), "no memory");

    struct ggml_context *fixed = ggml_init((struct ggml_init_params){.mem_size = 1 << 20});
    struct ggml_tensor *weights = ggml_new_tensor_2d(fixed, GGML_TYPE_F32, WIDTH, ROWS);
    struct ggml_tensor *x = ggml_new_tensor_2d(fixed, GGML_TYPE_F32, WIDTH, 1);
    fill(weights, 0.5f);

    struct ggml_context *context = ggml_init((struct ggml_init_params){.mem_size = 1 << 20, .no_alloc = true});
    struct ggml_tensor *all = ggml_mul_mat(context, weights, x), *attention = NULL;
    const qsa_ggml_sources sources = {
        .q = part(context, all, DIM, HEADS, 0),
        .k = part(context, all, DIM, 1, Q),
        .v = part(context, all, DIM, 1, Q + DIM),
        .index_q = part(context, all, INDEX_DIM, 1, Q + 2 * DIM),
        .raw_key = ggml_view_2d(context, all, INDEX_DIM, 1, all->nb[1], (Q + 2 * DIM + INDEX_DIM) * sizeof(float)),
    };
    check(qsa_ggml_layer(pass, context, 0, &sources, &attention), qsa_ggml_pass_detail(pass));
    struct ggml_cgraph *graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, attention);
    ggml_gallocr_t allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    if (!ggml_gallocr_alloc_graph(allocator, graph))
        check(QSA_E_MEMORY, "the graph");
    struct ggml_cplan plan = ggml_graph_plan(graph, THREADS, NULL);
    plan.work_data = malloc(plan.work_size + 1);

    float sum = 0;
    for (int32_t t = 0; t < TOKENS; t++) {
        const qsa_entry entry = {seq, t, 1, NULL};
        qsa_step *step = NULL;
        fill(x, 1.0f + sinf((float)t));
        check(qsa_step_begin(cache, &entry, 1, &step), qsa_error_detail());
        qsa_ggml_pass_run(pass, step, 1);
        ggml_graph_compute(graph, &plan);
        check(qsa_ggml_pass_status(pass), qsa_ggml_pass_detail(pass));
        check(qsa_step_commit(step, NULL), qsa_error_detail());
        sum += ((float *)attention->data)[0];
    }

    qsa_counters counters;
    check(qsa_cache_counters(cache, &counters), qsa_error_detail());
    printf("%d tokens through a graph: %llu keys read where dense attention reads %d, mean of the first output %g\n",
           TOKENS, (unsigned long long)counters.k_rows_read, TOKENS * (TOKENS + 1) / 2, (double)sum / TOKENS);
    free(plan.work_data);
    ggml_gallocr_free(allocator);
    ggml_free(context);
    ggml_free(fixed);
    qsa_ggml_pass_destroy(pass);
    qsa_cache_destroy(cache);
    return 0;
}
