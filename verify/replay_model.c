/* SPDX-License-Identifier: Apache-2.0 */
/* Whole models: logits, greedy tokens, selections, and the data passed to libqsa, within the tolerances of the golden
 * README. All sequences of a case run in one batch. */
#include "console/device_option.h"
#include "console/memory.h"
#include "console/utf8.h"
#include "verify/feed.h"
#include "verify/model_layers.h"

#include <stdlib.h>
#include <string.h>

static const double LOGITS_TOLERANCE = 5e-4;

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
    bool is_good = model_case_ok(m, qsa_context_create(m->model, &options, &m->context));
    for (size_t i = 0; is_good && i < m->count; i++)
        is_good = model_case_ok(m, qsa_session_open(m->context, &m->sequences[i].session)) &&
                  model_case_ok(m, qsa_session_set_anchor(m->sequences[i].session, m->sequences[i].anchor));
    if (is_good)
        qsa_context_set_tap(m->context, &(qsa_tap){model_layers_compare, m});
    return is_good;
}

/* logits [tokens of the sequence][vocabulary] */
static void compare_logits(model_case *m, const sequence *s, const float *logits)
{
    char name[MODEL_CASE_NAME_BYTES];
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
        if (!model_case_ok(m, qsa_model_token_bytes(m->model, s->next[i], &token, &size)))
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
        if (!model_case_ok(m, qsa_session_feed(s->session, &token, 1, logits, NULL, NULL)))
            return;
    }
    if (s->n_next)
        compare_text(m, s);
}

/* Runs all sequences in one batch, with the logits of all their tokens. */
static void run_batch(model_case *m)
{
    qsa_batch_item items[MODEL_CASE_SEQUENCES];
    const size_t vocabulary = m->info.vocabulary;
    for (size_t i = 0; i < m->count; i++) {
        sequence *s = &m->sequences[i];
        s->n = (uint32_t)s->ids->count;
        items[i] =
            (qsa_batch_item){s->session, s->ids->integers, s->n, s->n, memory_new(s->n * vocabulary, sizeof(float))};
    }
    if (model_case_ok(m, qsa_batch_run(m->context, items, m->count)))
        for (size_t i = 0; i < m->count; i++)
            compare_logits(m, &m->sequences[i], items[i].out_logits);
    for (size_t i = 0; m->r->differences == 0 && i < m->count; i++) {
        for (size_t k = 0; k < m->count; k++)
            m->sequences[k].n = 0;
        compare_next(m, &m->sequences[i], items[i].out_logits + (m->sequences[i].ids->count - 1) * vocabulary);
    }
    for (size_t i = 0; i < m->count; i++)
        free(items[i].out_logits);
    model_case_readable(m);
}

/* ---- bf16: no tolerance is meaningful, but the recorded index inputs determine the selections exactly ---- */

static void replay_index(model_case *m, uint32_t layer, const qsa_norm_weights *norms)
{
    const sequence *s = &m->sequences[0];
    const uint32_t n = (uint32_t)s->ids->count;
    char name[MODEL_CASE_NAME_BYTES];
    const size_t index = (size_t)m->info.qsa.index_heads * m->info.qsa.index_dim;
    const float *index_q = golden_floats(m->header, layer_name(s, layer, "all_index_q", name), n * index, &m->error);
    const float *raw_key = golden_floats(m->header, layer_name(s, layer, "all_raw_key", name),
                                         (size_t)n * m->info.qsa.index_dim, &m->error);
    golden_ragged recorded = golden_find_ragged(m->header, layer_name(s, layer, "selected", name), n, &m->error);
    if (!model_case_readable(m))
        return;
    golden_case c = {.final_qkv = true, .config = m->info.qsa, .n = n};
    c.config.layers = 1;
    c.index_q = (float *)index_q; /* read-only, like all below */
    c.raw_key = (float *)raw_key;
    c.index_q_norm = (float *)norms->index_q;
    c.index_k_norm = (float *)norms->index_k;
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
        if (model_case_ok(m, qsa_model_get_norms(m->model, i, &layer, &norms)))
            replay_index(m, layer, &norms);
    }
}

/* ---- a case ---- */

void replay_model(const golden_folder *folder, const char *file, const golden_file *golden, report *r)
{
    model_case m = {.header = golden_header(golden), .r = r};
    const bool bf16 = golden_is(m.header, "arithmetic", "bf16");
    if (!bf16 && !golden_is(m.header, "arithmetic", "f32")) {
        report_skip(r, "'arithmetic' is neither f32 nor bf16");
        return;
    }
    if (model_case_open(&m, folder, file, bf16)) {
        if (bf16)
            replay_bf16(&m);
        else if (open_context(&m))
            run_batch(&m);
    }
    model_case_close(&m);
}
