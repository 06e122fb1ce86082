/* SPDX-License-Identifier: Apache-2.0 */
/* Whole models: logits, greedy tokens, selections, and what crosses into libqsa, within the tolerances of the golden
 * README. All sequences of a case run in one batch; a tap compares each QSA layer while it is computed. */
#include "console/device_option.h"
#include "console/memory.h"
#include "console/utf8.h"
#include "verify/feed.h"
#include "verify/verify.h"

#include <math.h>
#include <qsa_engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LOGITS_TOLERANCE = 5e-4, LAYER_TOLERANCE = 3e-4;
enum { MAX_SEQUENCES = 16, NAME_BYTES = 64 };

/* One sequence of a case. Its entries begin with a prefix: nothing, or seq0_, seq1_, ... */
typedef struct sequence {
    char prefix[16];
    const golden_tensor *ids;
    const int32_t *next; /* [n_next] what follows greedily */
    size_t n_next;
    int64_t anchor;
    uint32_t *points; /* offsets in the run whose layer tensors were recorded */
    size_t n_points;
    qsa_session *session;
    uint32_t fed; /* tokens before the batch that runs */
    uint32_t n;   /* tokens in it */
} sequence;

typedef struct model_case {
    const golden_record *header;
    report *r;
    golden_error error;
    qsa_model *model;
    qsa_model_info info;
    qsa_config config;
    qsa_rotary rotary;
    qsa_context *context;
    sequence sequences[MAX_SEQUENCES];
    size_t count;
} model_case;

static bool readable(model_case *m)
{
    if (m->error.text[0])
        report_differ(m->r, "%s", m->error.text);
    return !m->error.text[0];
}

static bool engine_ok(model_case *m, qsa_status status)
{
    if (status != QSA_OK)
        report_differ(m->r, "%s: %s", qsa_status_name(status), qsa_engine_error());
    return status == QSA_OK;
}

static const char *entry_name(const sequence *s, const char *name, char buffer[NAME_BYTES])
{
    snprintf(buffer, NAME_BYTES, "%s%s", s->prefix, name);
    return buffer;
}

static const char *layer_name(const sequence *s, uint32_t layer, const char *name, char buffer[NAME_BYTES])
{
    snprintf(buffer, NAME_BYTES, "%slayer%u_%s", s->prefix, layer, name);
    return buffer;
}

/* ---- the file of a case ---- */

static bool exists(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file)
        fclose(file);
    return file != NULL;
}

/* folder of `file` / name suffix */
static char *beside(const golden_folder *folder, const char *file, const char *name, const char *suffix)
{
    const char *slash = strrchr(file, '/');
    const int below = slash ? (int)(slash - file + 1) : 0;
    const size_t size = strlen(folder->path) + (size_t)below + strlen(name) + strlen(suffix) + 2;
    char *path = memory_new(size, 1);
    snprintf(path, size, "%s/%.*s%s%s", folder->path, below, file, name, suffix);
    return path;
}

/* The file that the key `file` names; else NAME-f32.gguf; else NAME-bf16.gguf. A bf16 replay takes NAME-bf16.gguf. */
static char *model_path(model_case *m, const golden_folder *folder, const char *file, bool bf16)
{
    if (golden_has(m->header, "file")) {
        const char *named = golden_word(m->header, "file", 0, &m->error);
        return named ? beside(folder, file, named, "") : NULL;
    }
    const char *name = golden_word(m->header, "model", 0, &m->error);
    if (!name)
        return NULL;
    char *path = beside(folder, file, name, "-f32.gguf");
    if (exists(path) && !bf16)
        return path;
    free(path);
    return beside(folder, file, name, "-bf16.gguf");
}

static bool open_model(model_case *m, const golden_folder *folder, const char *file, bool bf16)
{
    qsa_model_options options;
    qsa_model_options_init(&options);
    options.weights = QSA_WEIGHTS_F32;
    char *path = model_path(m, folder, file, bf16);
    bool is_open = readable(m) && engine_ok(m, qsa_model_open(path, &options, &m->model));
    free(path);
    if (!is_open)
        return false;
    qsa_model_get_info(m->model, &m->info);
    m->config = m->info.qsa;
    return report_call(m->r, qsa_rotary_init(&m->config, &m->rotary), "rotary table");
}

/* ---- sequences ---- */

/* Without the tensor qsa_position it is the last token of the prompt. */
static void read_points(model_case *m, sequence *s)
{
    char name[NAME_BYTES];
    const golden_tensor *points = NULL;
    if (golden_has(m->header, entry_name(s, "qsa_position", name)))
        points = golden_find_tensor(m->header, name, &m->error);
    s->n_points = points && points->integers ? points->count : 1;
    s->points = memory_new(s->n_points, sizeof *s->points);
    for (size_t i = 0; i < s->n_points; i++)
        s->points[i] = points && points->integers ? (uint32_t)points->integers[i] : (uint32_t)s->ids->count - 1;
}

static void read_sequence(model_case *m, const char *prefix)
{
    sequence *s = &m->sequences[m->count];
    char name[NAME_BYTES];
    *s = (sequence){.n = 0};
    snprintf(s->prefix, sizeof s->prefix, "%s", prefix);
    s->ids = golden_find_tensor(m->header, entry_name(s, "ids", name), &m->error);
    if (s->ids && (!s->ids->integers || s->ids->count == 0))
        golden_fail(&m->error, "tensor '%s' must be i32 and hold a token", name);
    if (m->error.text[0])
        return;
    if (golden_has(m->header, entry_name(s, "first_position", name)))
        s->anchor = golden_integer_within(m->header, name, 0, 0, INT32_MAX, &m->error);
    if (golden_has(m->header, entry_name(s, "next", name))) {
        const golden_tensor *next = golden_find_tensor(m->header, name, &m->error);
        s->next = next ? next->integers : NULL;
        s->n_next = s->next ? next->count : 0;
    }
    read_points(m, s);
    m->count++;
}

static bool read_sequences(model_case *m)
{
    char prefix[16], name[NAME_BYTES];
    if (golden_has(m->header, "ids"))
        read_sequence(m, "");
    for (int i = 0; i < MAX_SEQUENCES - 1; i++) {
        snprintf(prefix, sizeof prefix, "seq%d_", i);
        snprintf(name, sizeof name, "%sids", prefix);
        if (golden_has(m->header, name))
            read_sequence(m, prefix);
    }
    if (m->count == 0)
        golden_fail(&m->error, "no tensor 'ids' or 'seq0_ids'");
    return readable(m);
}

/* ---- what crosses into libqsa ---- */

/* A token of the batch that is being computed. */
typedef struct tapped {
    model_case *m;
    const sequence *s;
    uint32_t layer, token, offset; /* in the model, in the batch, in the run */
    const qsa_norm_weights *norms;
    const qsa_tensors *tensors;
    const qsa_output *output;
    const qsa_step *step;
} tapped;

static void compare_selection(const tapped *t)
{
    char name[NAME_BYTES];
    model_case *m = t->m;
    const size_t rows = t->s->ids->count + t->s->n_next;
    if (!golden_has(m->header, layer_name(t->s, t->layer, "selected", name)))
        return;
    golden_ragged recorded = golden_find_ragged(m->header, name, rows, &m->error);
    const int32_t *fragile = golden_integers(m->header, layer_name(t->s, t->layer, "fragile", name), rows, &m->error);
    if (m->error.text[0])
        return; /* said at the end of the batch */
    uint32_t *groups = memory_new(m->info.qsa.budget / m->info.qsa.ratio, sizeof *groups), n;
    if (report_call(m->r, qsa_step_selection(t->step, t->token, groups, &n), "selection") && !fragile[t->offset])
        report_numbers(m->r, layer_name(t->s, t->layer, "selected, token", name), t->offset,
                       (const uint32_t *)recorded.values->integers + recorded.begin[t->offset],
                       (size_t)(recorded.begin[t->offset + 1] - recorded.begin[t->offset]), groups, n);
    free(groups);
}

/* One recorded tensor [points][heads][dim] at a point. */
static void compare_tensor(const tapped *t, const char *what, size_t point, const float *found, uint32_t heads,
                           uint32_t dim)
{
    char name[NAME_BYTES];
    model_case *m = t->m;
    const size_t size = (size_t)heads * dim;
    if (!golden_has(m->header, layer_name(t->s, t->layer, what, name)))
        return;
    const float *recorded = golden_floats(m->header, name, t->s->n_points * size, &m->error);
    if (recorded)
        report_close(m->r, name, t->offset, recorded + point * size, found, size, LAYER_TOLERANCE);
}

static void gather(const qsa_strided *from, uint32_t token, uint32_t heads, uint32_t dim, float *out)
{
    for (uint32_t h = 0; h < heads; h++)
        memcpy(out + (size_t)h * dim, from->data + token * from->token_stride + h * from->head_stride,
               dim * sizeof *out);
}

/* q or k of the token, normed and rotated as libqsa does. */
static void gather_rotated(const tapped *t, const qsa_strided *from, uint32_t heads, const float *weight, float *out)
{
    float cos[QSA_MAX_DIM / 2], sin[QSA_MAX_DIM / 2];
    const qsa_config *c = &t->m->config;
    const int32_t position = (int32_t)(t->s->anchor + t->offset);
    gather(from, t->token, heads, c->head_dim, out);
    if (report_call(t->m->r, qsa_rotary_cos_sin(&t->m->rotary, (qsa_triple){position, position, position}, cos, sin),
                    "cos and sin"))
        report_call(t->m->r,
                    qsa_norm_rotate(out, heads, c->head_dim, weight, c->eps, t->m->rotary.pairs, cos, sin,
                                    QSA_PROFILE_F32, out),
                    "norm and rotate");
}

static void compare_point(const tapped *t, size_t point)
{
    const qsa_config *c = &t->m->config;
    const qsa_strided output = {t->output->data, t->output->token_stride, t->output->head_stride};
    const size_t main = (size_t)c->q_heads * c->head_dim, index = (size_t)c->index_heads * c->index_dim;
    float *x = memory_new(main > index ? main : index, sizeof *x);
    gather(&t->tensors->index_q, t->token, c->index_heads, c->index_dim, x);
    compare_tensor(t, "index_q", point, x, c->index_heads, c->index_dim);
    gather(&t->tensors->raw_key, t->token, 1, c->index_dim, x);
    compare_tensor(t, "raw_key", point, x, 1, c->index_dim);
    gather_rotated(t, &t->tensors->q, c->q_heads, t->norms->q, x);
    compare_tensor(t, "q", point, x, c->q_heads, c->head_dim);
    gather_rotated(t, &t->tensors->k, c->kv_heads, t->norms->k, x);
    compare_tensor(t, "k", point, x, c->kv_heads, c->head_dim);
    gather(&t->tensors->v, t->token, c->kv_heads, c->head_dim, x);
    compare_tensor(t, "v", point, x, c->kv_heads, c->head_dim);
    gather(&output, t->token, c->q_heads, c->head_dim, x);
    compare_tensor(t, "output", point, x, c->q_heads, c->head_dim);
    free(x);
}

static void compare_token(const tapped *t)
{
    compare_selection(t);
    for (size_t i = 0; i < t->s->n_points; i++)
        if (t->s->points[i] == t->offset)
            compare_point(t, i);
}

static bool find_norms(const model_case *m, uint32_t layer, qsa_norm_weights *out)
{
    uint32_t found;
    for (uint32_t i = 0; i < m->info.qsa.layers; i++)
        if (qsa_model_get_norms(m->model, i, &found, out) == QSA_OK && found == layer)
            return true;
    return false;
}

static void compare_layer(void *user, uint32_t model_layer, uint32_t tokens, const qsa_tensors *tensors,
                          const qsa_output *output, const qsa_step *step)
{
    model_case *m = user;
    qsa_norm_weights norms;
    uint32_t first = 0;
    if (!find_norms(m, model_layer, &norms)) {
        report_differ(m->r, "layer %u of the model is no QSA layer", model_layer);
        return;
    }
    for (size_t i = 0; i < m->count && first < tokens; i++) {
        const sequence *s = &m->sequences[i];
        for (uint32_t k = 0; k < s->n; k++)
            compare_token(&(tapped){m, s, model_layer, first + k, s->fed + k, &norms, tensors, output, step});
        first += s->n;
    }
}

/* ---- running ---- */

static bool open_context(model_case *m)
{
    qsa_context_options options;
    size_t tokens = 0;
    qsa_context_options_init(&options);
    for (size_t i = 0; i < m->count; i++)
        tokens += m->sequences[i].ids->count + m->sequences[i].n_next;
    if (!report_same(m->r, tokens <= QSA_MAX_STEP_TOKENS, "%zu tokens do not fit in one batch", tokens))
        return false;
    options.context = options.chunk = (uint32_t)tokens;
    options.sessions = (uint32_t)m->count;
    options.kv = QSA_KV_F32;
    options.index = QSA_PROFILE_F32;
    options.device = device_in_use();
    bool is_good = engine_ok(m, qsa_context_create(m->model, &options, &m->context));
    for (size_t i = 0; is_good && i < m->count; i++)
        is_good = engine_ok(m, qsa_session_open(m->context, &m->sequences[i].session)) &&
                  engine_ok(m, qsa_session_set_anchor(m->sequences[i].session, m->sequences[i].anchor));
    if (is_good)
        qsa_context_set_tap(m->context, &(qsa_tap){compare_layer, m});
    return is_good;
}

/* logits [tokens of the sequence][vocabulary] */
static void compare_logits(model_case *m, const sequence *s, const float *logits)
{
    char name[NAME_BYTES];
    if (!golden_has(m->header, entry_name(s, "logits", name)))
        return;
    const golden_tensor *points = golden_find_tensor(m->header, entry_name(s, "logit_position", name), &m->error);
    const size_t count = points && points->integers ? points->count : 0, vocabulary = m->info.vocabulary;
    const float *recorded = golden_floats(m->header, entry_name(s, "logits", name), count * vocabulary, &m->error);
    for (size_t i = 0; recorded && i < count; i++) {
        const int32_t at = points->integers[i];
        if (report_same(m->r, at >= 0 && (size_t)at < s->ids->count, "logits at offset %d of %zu", at, s->ids->count))
            report_close(m->r, name, (uint64_t)at, recorded + i * vocabulary, logits + (size_t)at * vocabulary,
                         vocabulary, LOGITS_TOLERANCE);
    }
}

static int32_t argmax(const float *logits, uint32_t n)
{
    int32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? (int32_t)i : best;
    return best;
}

static void compare_text(model_case *m, const sequence *s)
{
    char *bytes = NULL;
    size_t n = 0, capacity = 0, n_text, n_recorded;
    if (!golden_has(m->header, "next_text"))
        return;
    const char *recorded = golden_text(m->header, "next_text", &n_recorded, &m->error);
    for (size_t i = 0; i < s->n_next; i++) {
        const char *token;
        size_t size;
        if (!engine_ok(m, qsa_model_token_bytes(m->model, s->next[i], &token, &size)))
            break;
        bytes = memory_grow(bytes, &capacity, n + size, 1);
        memcpy(bytes + n, token, size);
        n += size;
    }
    char *text = utf8_lossy(bytes ? bytes : "", n, &n_text);
    if (recorded)
        report_same(m->r, n_text == n_recorded && memcmp(text, recorded, n_text) == 0, "next_text is '%s'", text);
    free(text);
    free(bytes);
}

/* Continues a sequence greedily; logits are those of its last token. */
static void compare_next(model_case *m, sequence *s, float *logits)
{
    for (size_t i = 0; i < s->n_next; i++) {
        const int32_t token = argmax(logits, m->info.vocabulary);
        if (!report_same(m->r, token == s->next[i], "greedy token %zu: expected %d, found %d", i, s->next[i], token))
            return;
        s->fed = (uint32_t)(s->ids->count + i);
        s->n = 1;
        if (!engine_ok(m, qsa_session_feed(s->session, &token, 1, logits, NULL, NULL)))
            return;
    }
    if (s->n_next)
        compare_text(m, s);
}

/* All sequences in one batch, with the logits of all their tokens. */
static void run_batch(model_case *m)
{
    qsa_batch_item items[MAX_SEQUENCES];
    const size_t vocabulary = m->info.vocabulary;
    for (size_t i = 0; i < m->count; i++) {
        sequence *s = &m->sequences[i];
        s->n = (uint32_t)s->ids->count;
        items[i] =
            (qsa_batch_item){s->session, s->ids->integers, s->n, s->n, memory_new(s->n * vocabulary, sizeof(float))};
    }
    if (engine_ok(m, qsa_batch_run(m->context, items, m->count)))
        for (size_t i = 0; i < m->count; i++)
            compare_logits(m, &m->sequences[i], items[i].out_logits);
    for (size_t i = 0; m->r->differences == 0 && i < m->count; i++) {
        for (size_t k = 0; k < m->count; k++)
            m->sequences[k].n = 0;
        compare_next(m, &m->sequences[i], items[i].out_logits + (m->sequences[i].ids->count - 1) * vocabulary);
    }
    for (size_t i = 0; i < m->count; i++)
        free(items[i].out_logits);
    readable(m);
}

/* ---- bf16: no tolerance is meaningful, but the selections follow exactly from the recorded index inputs ---- */

static golden_case index_case(const model_case *m, uint32_t n, const float *index_q, const float *raw_key,
                              const qsa_norm_weights *norms)
{
    const qsa_config *config = &m->config;
    golden_case c = {.final_qkv = true,
                     .index_bf16 = true,
                     .kv_type = GOLDEN_KV_BF16,
                     .q_heads = config->q_heads,
                     .kv_heads = config->kv_heads,
                     .head_dim = config->head_dim,
                     .index_heads = config->index_heads,
                     .index_dim = config->index_dim,
                     .rotary_dim = config->rotary_dim,
                     .sections = {config->sections[0], config->sections[1], config->sections[2]},
                     .budget = config->budget,
                     .ratio = config->ratio,
                     .theta = config->theta,
                     .eps = config->eps,
                     .n = n};
    c.has_yarn = config->yarn.factor > 0;
    c.yarn_factor = config->yarn.factor;
    c.yarn_original_context = config->yarn.original_context;
    c.yarn_beta_fast = config->yarn.beta_fast;
    c.yarn_beta_slow = config->yarn.beta_slow;
    c.has_yarn_attention_factor = config->yarn.attention_factor != 0;
    c.yarn_attention_factor = config->yarn.attention_factor;
    c.index_q = (float *)index_q; /* only read */
    c.raw_key = (float *)raw_key;
    c.index_q_norm = (float *)norms->index_q;
    c.index_k_norm = (float *)norms->index_k;
    return c;
}

static void replay_index(model_case *m, uint32_t layer, const qsa_norm_weights *norms)
{
    const sequence *s = &m->sequences[0];
    const uint32_t n = (uint32_t)s->ids->count;
    char name[NAME_BYTES];
    const size_t index = (size_t)m->config.index_heads * m->config.index_dim;
    const float *index_q = golden_floats(m->header, layer_name(s, layer, "all_index_q", name), n * index, &m->error);
    const float *raw_key =
        golden_floats(m->header, layer_name(s, layer, "all_raw_key", name), (size_t)n * m->config.index_dim, &m->error);
    golden_ragged recorded = golden_find_ragged(m->header, layer_name(s, layer, "selected", name), n, &m->error);
    if (!readable(m))
        return;
    const golden_case c = index_case(m, n, index_q, raw_key, norms);
    feed_run run;
    if (report_call(m->r, feed_all(&run, &c, &(feed_options){.chunk = 50, .parts = 2}), "cache"))
        for (uint32_t t = 0; t < n; t++)
            report_numbers(m->r, name, t, (const uint32_t *)recorded.values->integers + recorded.begin[t],
                           (size_t)(recorded.begin[t + 1] - recorded.begin[t]),
                           run.groups + (size_t)t * run.groups_size, run.n_groups[t]);
    feed_close(&run);
}

static void replay_bf16(model_case *m)
{
    for (uint32_t i = 0; i < m->info.qsa.layers; i++) {
        uint32_t layer;
        qsa_norm_weights norms;
        if (engine_ok(m, qsa_model_get_norms(m->model, i, &layer, &norms)))
            replay_index(m, layer, &norms);
    }
}

/* ---- a case ---- */

static void close_case(model_case *m)
{
    for (size_t i = 0; i < m->count; i++) {
        qsa_session_close(m->sequences[i].session);
        free(m->sequences[i].points);
    }
    qsa_context_destroy(m->context);
    qsa_model_close(m->model);
}

void golden_replay_model(const golden_folder *folder, const char *file, const golden_file *golden, report *r)
{
    model_case m = {.header = golden_header(golden), .r = r};
    const bool bf16 = golden_is(m.header, "arithmetic", "bf16");
    if (!bf16 && !golden_is(m.header, "arithmetic", "f32")) {
        report_skip(r, "'arithmetic' is neither f32 nor bf16");
        return;
    }
    if (open_model(&m, folder, file, bf16) && read_sequences(&m)) {
        if (bf16)
            replay_bf16(&m);
        else if (open_context(&m))
            run_batch(&m);
    }
    close_case(&m);
}
