/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/golden_case.h"

#include "verify/golden_numbers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A limit above any recorded case: 1 GiB per tensor. */
#define ELEMENTS_MAX ((uint64_t)1 << 28)

/* How the values of a stream become inputs. The factor is 1 if only the scale applies. */
typedef struct recipe {
    float factor, scale, odd_scale; /* odd_scale: for odd rows */
    bool to_bf16;
} recipe;

static uint32_t within(const golden_record *record, const char *key, size_t index, uint32_t least, uint32_t most,
                       golden_error *error)
{
    return (uint32_t)golden_integer_within(record, key, index, least, most, error);
}

static qsa_profile index_profile(const golden_record *record, golden_error *error)
{
    const bool bf16 = golden_is(record, "profile", "bf16");
    if (!bf16 && !golden_is(record, "profile", "f32"))
        golden_fail(error, "%s: 'profile' must be f32 or bf16", golden_record_name(record));
    return bf16 ? QSA_PROFILE_BF16 : QSA_PROFILE_F32;
}

static qsa_kv_type kv_type(const golden_record *record, golden_error *error)
{
    static const char *const names[QSA_KV_TYPE_COUNT] = {"f32", "bf16", "f16", "q8_0"}; /* in the order of the enum */
    for (int type = 0; type < QSA_KV_TYPE_COUNT; type++)
        if (golden_is(record, "kv_type", names[type]))
            return (qsa_kv_type)type;
    golden_fail(error, "%s: 'kv_type' must be f32, bf16, f16 or q8_0", golden_record_name(record));
    return QSA_KV_F32;
}

static double number_or(const golden_record *record, const char *key, double otherwise, golden_error *error)
{
    return golden_has(record, key) ? golden_number(record, key, 0, error) : otherwise;
}

static qsa_yarn read_yarn(const golden_record *record, golden_error *error)
{
    if (!golden_has(record, "yarn_factor"))
        return (qsa_yarn){0};
    return (qsa_yarn){
        .factor = (float)golden_number(record, "yarn_factor", 0, error),
        .original_context = (float)golden_number(record, "yarn_original_max_position_embeddings", 0, error),
        .beta_fast = (float)number_or(record, "yarn_beta_fast", 32, error),
        .beta_slow = (float)number_or(record, "yarn_beta_slow", 1, error),
        .attention_factor = (float)number_or(record, "yarn_attn_factor", 0, error),
    };
}

bool golden_case_shape(const golden_record *header, golden_case *out, golden_error *error)
{
    *out = (golden_case){0};
    qsa_config *c = &out->config;
    qsa_config_init(c);
    c->layers = 1;
    c->kv_type = QSA_KV_F32;
    c->profile = QSA_PROFILE_F32;
    c->q_heads = within(header, "q_heads", 0, 1, QSA_MAX_Q_HEADS, error);
    c->kv_heads = within(header, "kv_heads", 0, 1, QSA_MAX_Q_HEADS, error);
    c->head_dim = within(header, "head_dim", 0, 1, QSA_MAX_DIM, error);
    c->index_heads = within(header, "index_heads", 0, 1, QSA_MAX_Q_HEADS, error);
    c->index_dim = within(header, "index_dim", 0, 1, QSA_MAX_DIM, error);
    c->rotary_dim = within(header, "rotary_dim", 0, 2, QSA_MAX_DIM, error);
    c->budget = within(header, "budget", 0, 1, QSA_MAX_BUDGET, error);
    c->ratio = within(header, "ratio", 0, 1, QSA_MAX_RATIO, error);
    for (size_t i = 0; i < 3; i++)
        c->sections[i] = within(header, "sections", i, 0, QSA_MAX_DIM, error);
    c->theta = (float)golden_number(header, "theta", 0, error);
    c->eps = (float)golden_number(header, "eps", 0, error);
    c->yarn = read_yarn(header, error);
    if (!error->text[0] && (c->rotary_dim % 2 || c->rotary_dim > c->head_dim || c->rotary_dim > c->index_dim)) {
        golden_fail(error, "%s: 'rotary_dim' must be even, and at most head_dim and index_dim",
                    golden_record_name(header));
    }
    if (!error->text[0] && (c->q_heads % c->kv_heads || c->budget % c->ratio || (c->ratio & (c->ratio - 1)))) {
        golden_fail(error, "%s: q_heads must be a multiple of kv_heads, budget of ratio, ratio a power of two",
                    golden_record_name(header));
    }
    return !error->text[0];
}

static void read_run(const golden_record *record, golden_case *c, golden_error *error)
{
    c->config.profile = index_profile(record, error);
    c->n = within(record, "n", 0, 1, 65536, error);
    c->anchor = golden_integer_within(record, "anchor", 0, 0, INT32_MAX, error);
    if (golden_has(record, "rotary"))
        c->triples = golden_integers(record, "rotary", (size_t)c->n * 3, error);
}

static float *allocate(uint64_t rows, uint64_t row_size, golden_error *error)
{
    if (error->text[0])
        return NULL;
    if (rows * row_size > ELEMENTS_MAX) {
        golden_fail(error, "an input of %llu numbers is more than this reader takes",
                    (unsigned long long)(rows * row_size));
        return NULL;
    }
    float *numbers = malloc((size_t)(rows * row_size) * sizeof *numbers);
    if (!numbers)
        golden_fail(error, "out of memory");
    return numbers;
}

/* [rows][row_size], from the stream of that key. */
static float *read_stream(const golden_record *record, const char *key, uint64_t rows, uint64_t row_size, recipe r,
                          golden_error *error)
{
    assert(row_size > 0);
    uint64_t stream = (uint64_t)golden_integer_within(record, key, 0, 0, UINT32_MAX, error);
    float *numbers = allocate(rows, row_size, error);
    if (!numbers)
        return NULL;
    for (uint64_t k = 0; k < rows * row_size; k++) {
        float product = golden_value(stream, k) * r.factor;
        product = product * (k / row_size % 2 ? r.odd_scale : r.scale);
        numbers[k] = r.to_bf16 ? golden_to_bf16(product) : product;
    }
    return numbers;
}

/* Effective norm weights: 1 + value * scale; the recipe may round the product to bf16 first. */
static float *read_norm(const golden_record *record, const char *key, uint32_t dim, recipe r, golden_error *error)
{
    float *weights = read_stream(record, key, 1, dim, r, error);
    for (uint32_t i = 0; weights && i < dim; i++)
        weights[i] = 1.0f + weights[i];
    return weights;
}

static bool finish(golden_case *c, golden_error *error)
{
    if (error->text[0]) {
        golden_case_free(c);
        return false;
    }
    return true;
}

/* ---- stage files ---- */

static void read_stage_queries(const golden_record *header, golden_case *c, golden_error *error)
{
    const golden_tensor *positions = golden_find_tensor(header, "query_position", error);
    if (error->text[0])
        return;
    if (positions->type != GOLDEN_I32) {
        golden_fail(error, "%s: tensor 'query_position' must be i32", golden_record_name(header));
        return;
    }
    c->queries = positions->count;
    c->query = malloc((c->queries + 1) * sizeof *c->query);
    if (!c->query) {
        golden_fail(error, "out of memory");
        return;
    }
    for (size_t i = 0; i < c->queries; i++) {
        int64_t offset = positions->integers[i] - c->anchor;
        if (offset < 0 || offset >= (int64_t)c->n || (i && (uint32_t)offset <= c->query[i - 1])) {
            golden_fail(error, "%s: 'query_position' %d: must ascend within the run", golden_record_name(header),
                        (int)positions->integers[i]);
            return;
        }
        c->query[i] = (uint32_t)offset;
    }
}

static void read_stage_streams(const golden_record *header, golden_case *c, golden_error *error)
{
    recipe plain = {1, 1, 1, c->config.profile == QSA_PROFILE_BF16};
    recipe norm = {1, 0.25f, 0.25f, c->config.profile == QSA_PROFILE_BF16};
    float q_scale = (float)golden_number(header, "q_scale", 0, error);
    recipe q = {1, q_scale, q_scale, c->config.profile == QSA_PROFILE_BF16};
    uint64_t kv_size = (uint64_t)c->config.kv_heads * c->config.head_dim;
    c->has_attention = true;
    c->index_q = read_stream(header, "stream_index_q", c->n, (uint64_t)c->config.index_heads * c->config.index_dim,
                             plain, error);
    c->raw_key = read_stream(header, "stream_raw_key", c->n, c->config.index_dim, plain, error);
    c->index_q_norm = read_norm(header, "stream_q_norm", c->config.index_dim, norm, error);
    c->index_k_norm = read_norm(header, "stream_k_norm", c->config.index_dim, norm, error);
    c->q = read_stream(header, "stream_q", c->n, (uint64_t)c->config.q_heads * c->config.head_dim, q, error);
    c->k = read_stream(header, "stream_k", c->n, kv_size, plain, error);
    c->v = read_stream(header, "stream_v", c->n, kv_size, plain, error);
}

static float *constant_row(uint32_t size, float value, golden_error *error)
{
    float *numbers = allocate(1, size, error);
    for (uint32_t i = 0; numbers && i < size; i++)
        numbers[i] = value;
    return numbers;
}

/* Raw keys of a ties file: templates [templates][ratio][index_dim], placed by template_of_group. */
static void place_templates(const golden_record *header, golden_case *c, golden_error *error)
{
    size_t group_size = (size_t)c->config.ratio * c->config.index_dim;
    size_t groups = (c->n + c->config.ratio - 1) / c->config.ratio;
    const golden_tensor *shape = golden_find_tensor(header, "templates", error);
    const int32_t *template_of_group = golden_integers(header, "template_of_group", groups, error);
    const float *templates = shape ? golden_floats(header, "templates", shape->count, error) : NULL;
    c->raw_key = allocate(c->n, c->config.index_dim, error);
    for (uint32_t t = 0; c->raw_key && t < c->n; t++) {
        int64_t number = template_of_group[t / c->config.ratio];
        if (number < 0 || (size_t)number >= shape->count / group_size) {
            golden_fail(error, "%s: 'template_of_group' %d: there is no such template", golden_record_name(header),
                        (int)number);
            return;
        }
        memcpy(&c->raw_key[(size_t)t * c->config.index_dim],
               &templates[(size_t)number * group_size + (size_t)(t % c->config.ratio) * c->config.index_dim],
               c->config.index_dim * sizeof *templates);
    }
}

static void read_ties(const golden_record *header, golden_case *c, golden_error *error)
{
    size_t count = (size_t)c->n * c->config.index_heads * c->config.index_dim;
    const float *index_q = golden_floats(header, "index_q_raw", count, error);
    float weight = (float)golden_number(header, "norm_weight", 0, error);
    c->index_q_norm = constant_row(c->config.index_dim, weight, error);
    c->index_k_norm = constant_row(c->config.index_dim, weight, error);
    c->index_q = allocate(c->n, (uint64_t)c->config.index_heads * c->config.index_dim, error);
    if (c->index_q)
        memcpy(c->index_q, index_q, count * sizeof *index_q);
    place_templates(header, c, error);
}

bool golden_case_from_stage(const golden_record *header, golden_case *out, golden_error *error)
{
    bool ties = golden_is(header, "kind", "ties");
    if (!ties && !golden_is(header, "kind", "stage")) {
        golden_fail(error, "%s: neither a stage nor a ties file", golden_record_name(header));
        return false;
    }
    if (!golden_case_shape(header, out, error))
        return false;
    out->final_qkv = true;
    read_run(header, out, error);
    read_stage_queries(header, out, error);
    if (ties)
        read_ties(header, out, error);
    else
        read_stage_streams(header, out, error);
    return finish(out, error);
}

/* ---- path records ---- */

/* queries A B C D ...: the offsets A..B and C..D, both ends included. */
static void read_path_queries(const golden_record *record, golden_case *c, golden_error *error)
{
    size_t words = golden_words(record, "queries");
    if (words == 0 || words % 2) {
        golden_fail(error, "%s: 'queries' must be pairs of offsets", golden_record_name(record));
        return;
    }
    c->query = malloc(((size_t)c->n + 1) * sizeof *c->query);
    if (!c->query) {
        golden_fail(error, "out of memory");
        return;
    }
    uint32_t least = 0;
    for (size_t i = 0; i < words && !error->text[0]; i += 2) {
        uint32_t first = within(record, "queries", i, least, c->n - 1, error);
        uint32_t last = within(record, "queries", i + 1, first, c->n - 1, error);
        for (uint32_t t = first; t <= last && !error->text[0]; t++)
            c->query[c->queries++] = t;
        least = last + 1;
    }
}

static float bits_to_float(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

static recipe path_recipe(const golden_record *record, const char *key, const char *odd_key, golden_error *error)
{
    return (recipe){.factor = bits_to_float(golden_hex(record, "factor_bits", 0, error)),
                    .scale = (float)golden_number(record, key, 0, error),
                    .odd_scale = (float)golden_number(record, odd_key, 0, error)};
}

static void read_path_streams(const golden_record *record, golden_case *c, golden_error *error)
{
    uint64_t kv_size = (uint64_t)c->config.kv_heads * c->config.head_dim;
    recipe r = path_recipe(record, "scale_index_q", "scale_index_q", error);
    c->index_q =
        read_stream(record, "stream_index_q", c->n, (uint64_t)c->config.index_heads * c->config.index_dim, r, error);
    r = path_recipe(record, "scale_raw_key", "scale_raw_key", error);
    c->raw_key = read_stream(record, "stream_raw_key", c->n, c->config.index_dim, r, error);
    r = path_recipe(record, "scale_q", "scale_q", error);
    c->q = read_stream(record, "stream_q", c->n, (uint64_t)c->config.q_heads * c->config.head_dim, r, error);
    r = path_recipe(record, "scale_k", "scale_k", error);
    c->k = read_stream(record, "stream_k", c->n, kv_size, r, error);
    r = path_recipe(record, "scale_v", "scale_v_odd", error);
    c->v = read_stream(record, "stream_v", c->n, kv_size, r, error);
}

static void read_path_norms(const golden_record *record, golden_case *c, golden_error *error)
{
    recipe quarter = {1, 0.25f, 0.25f, false};
    float q_scale = (float)golden_number(record, "scale_main_q_norm", 0, error);
    recipe main_q = {1, q_scale, q_scale, false};
    c->index_q_norm = read_norm(record, "stream_q_norm", c->config.index_dim, quarter, error);
    c->index_k_norm = read_norm(record, "stream_k_norm", c->config.index_dim, quarter, error);
    c->q_norm = read_norm(record, "stream_main_q_norm", c->config.head_dim, main_q, error);
    c->k_norm = read_norm(record, "stream_main_k_norm", c->config.head_dim, quarter, error);
}

bool golden_case_from_path(const golden_record *record, golden_case *out, golden_error *error)
{
    if (!golden_is(record, "kind", "path")) {
        golden_fail(error, "%s: not of kind path", golden_record_name(record));
        return false;
    }
    if (!golden_case_shape(record, out, error))
        return false;
    out->has_attention = true;
    out->config.kv_type = kv_type(record, error);
    read_run(record, out, error);
    out->frame = golden_integer_within(record, "frame", 0, INT32_MIN, INT32_MAX, error);
    out->window = within(record, "window", 0, 0, INT32_MAX, error);
    if (!error->text[0])
        read_path_queries(record, out, error);
    read_path_streams(record, out, error);
    read_path_norms(record, out, error);
    return finish(out, error);
}

void golden_case_free(golden_case *c)
{
    float *const arrays[] = {c->index_q,      c->raw_key,      c->q,      c->k,     c->v,
                             c->index_q_norm, c->index_k_norm, c->q_norm, c->k_norm};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        free(arrays[i]);
    free(c->query);
    *c = (golden_case){0};
}
