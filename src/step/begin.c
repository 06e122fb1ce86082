/* SPDX-License-Identifier: Apache-2.0 */
/* Begin, commit and abort of a step: what it reserves, and how it becomes visible. */
#include "base/float_env.h"
#include "run/run.h"
#include "step/step.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static qsa_status plan_triples(qsa_step *step, const qsa_entry *entry, size_t number)
{
    const int64_t frame = step->entries[number].sequence->frame;
    const uint32_t first = step->batch_entries[number].first_token;
    assert(first + entry->tokens <= step->cache->layout.config.max_step_tokens);
    for (uint32_t t = 0; t < entry->tokens; t++) {
        int32_t position = (int32_t)(entry->position + t);
        qsa_triple triple = entry->triples == NULL ? (qsa_triple){position, position, position} : entry->triples[t];
        QSA_TRY(qsa_run_relative(triple, frame, number, t, &step->relative[first + t]));
        step->token_entry[first + t] = (uint32_t)number;
    }
    return QSA_OK;
}

/* What a step will take from the cache. */
typedef struct step_need {
    uint64_t pages, chunks;
} step_need;

/* The pages that an entry needs, and the chunks of its table. */
static void plan_pages(qsa_step *step, size_t number, step_need *need)
{
    const qsa_cache *cache = step->cache;
    qsa_step_entry *planned = &step->entries[number];
    const qsa_batch_entry *told = &step->batch_entries[number];
    qsa_sequence *sequence = planned->sequence;
    if (sequence->n_pages == 0) /* an empty table starts where its first page's entry will be */
        sequence->first_entry = qsa_table_first_entry(planned->position, sequence->frame, 0);
    const uint64_t slots = sequence->first_slot + told->stored;
    assert(qsa_pages_for(slots + told->tokens) >= sequence->n_pages);
    planned->new_pages = (uint32_t)(qsa_pages_for(slots + told->tokens) - sequence->n_pages);
    planned->has_replaced = slots % QSA_PAGE_TOKENS != 0 && told->stored > 0 &&
                            cache->references[*qsa_sequence_page(sequence, sequence->n_pages - 1)] > 1;
    const uint32_t written = planned->new_pages + planned->has_replaced;
    need->pages += written;
    if (written > 0)
        need->chunks += qsa_table_need(cache, sequence, sequence->n_pages - planned->has_replaced, written);
}

/* Checks one entry and records what it needs. */
static qsa_status plan_entry(qsa_step *step, const qsa_entry *entry, size_t number, step_need *need)
{
    qsa_cache *cache = step->cache;
    qsa_sequence *sequence;
    QSA_TRY(qsa_sequence_find(cache, entry->seq, &sequence));
    if (step->sequence_stamp[entry->seq.slot] == step->stamp)
        return qsa_fail(QSA_E_SEQUENCE, "entry %zu: sequence %" PRIu32 " is already in this step", number,
                        entry->seq.slot);
    step->sequence_stamp[entry->seq.slot] = step->stamp;
    if (entry->tokens == 0)
        return qsa_fail(QSA_E_ARGUMENT, "entry %zu is empty", number);
    if (entry->tokens > cache->layout.config.max_step_tokens - step->batch.n_tokens)
        return qsa_fail(QSA_E_LIMIT, "entry %zu: more than %" PRIu32 " tokens (max_step_tokens) in one step", number,
                        cache->layout.config.max_step_tokens);
    if (sequence->placed)
        QSA_TRY(qsa_run_check_append(sequence->frontier, entry->position, entry->tokens, number));
    else
        QSA_TRY(qsa_run_check_range(entry->position, entry->tokens, number));
    qsa_step_entry *planned = &step->entries[number];
    qsa_batch_entry *told = &step->batch_entries[number];
    *planned = (qsa_step_entry){.sequence = sequence, .position = entry->position};
    *told = (qsa_batch_entry){
        .first_token = step->batch.n_tokens, .tokens = entry->tokens, .stored = qsa_sequence_tokens(sequence)};
    QSA_TRY(plan_triples(step, entry, number));
    plan_pages(step, number, need);
    step->batch.n_tokens += entry->tokens;
    return QSA_OK;
}

/* Takes an entry's pages. They belong to the step until commit: no sequence counts them. Cannot fail. */
static void reserve(qsa_step *step, uint32_t number)
{
    qsa_cache *cache = step->cache;
    qsa_step_entry *entry = &step->entries[number];
    qsa_batch_entry *told = &step->batch_entries[number];
    qsa_sequence *sequence = entry->sequence;
    const uint32_t written = entry->new_pages + entry->has_replaced;
    assert(written <= cache->n_free && !cache->step_open);
    assert(sequence->n_pages + entry->new_pages <= cache->layout.pages);
    if (written > 0)
        qsa_table_prepare(cache, sequence, sequence->n_pages - entry->has_replaced, written);
    if (entry->has_replaced) {
        uint32_t *last = qsa_sequence_page(sequence, sequence->n_pages - 1);
        entry->replaced = *last;
        *last = qsa_page_take(cache);
    }
    for (uint32_t i = 0; i < entry->new_pages; i++)
        *qsa_sequence_page(sequence, sequence->n_pages + i) = qsa_page_take(cache);
    told->table = sequence->table;
    told->first_slot = qsa_sequence_first_slot(sequence);
    told->n_chunks = qsa_sequence_chunks(sequence, sequence->n_pages + entry->new_pages);
}

static qsa_status copy_shared_pages(qsa_step *step)
{
    for (uint32_t e = 0; e < step->batch.n_entries; e++) {
        const qsa_step_entry *entry = &step->entries[e];
        if (entry->has_replaced)
            QSA_TRY(qsa_page_copy(step->cache, entry->replaced,
                                  *qsa_sequence_page(entry->sequence, entry->sequence->n_pages - 1)));
    }
    return QSA_OK;
}

/* ---- the batch: the description of the step for the device, once for all layers ---- */

static float *rotary_row(qsa_step *step, uint32_t row)
{
    assert(row < 2 * step->cache->layout.config.max_step_tokens);
    return step->cos_sin + (size_t)row * 2 * step->cache->rotary.pairs;
}

static qsa_query query_of(const qsa_step *step, uint32_t token)
{
    assert(token < step->batch.n_tokens);
    const uint32_t e = step->token_entry[token];
    const qsa_batch_entry *told = &step->batch_entries[e];
    const qsa_sequence *sequence = step->entries[e].sequence;
    uint64_t ratio = step->cache->layout.config.ratio, visible = told->stored + (token - told->first_token) + 1;
    int64_t anchor = sequence->placed ? sequence->anchor : step->entries[e].position;
    int64_t first = qsa_run_window_anchor(anchor, anchor + (int64_t)visible - 1, (uint32_t)ratio, sequence->window);
    qsa_query query = {.first_group = (uint64_t)(first - anchor) / ratio, .end_group = visible / ratio};
    query.tail = query.end_group * ratio;
    query.n_tail = (uint32_t)(visible - query.tail);
    return query;
}

static void describe_tokens(qsa_step *step)
{
    for (uint32_t t = 0; t < step->batch.n_tokens; t++) {
        const qsa_batch_entry *told = &step->batch_entries[step->token_entry[t]];
        *qsa_triple_at(step->cache, qsa_batch_place(told, told->stored + (t - told->first_token))) = step->relative[t];
        qsa_rotary_fill(&step->cache->rotary, step->relative[t], rotary_row(step, t));
        step->queries[t] = query_of(step, t);
    }
    step->batch.n_rows = step->batch.n_tokens;
}

/* The groups of an entry that receive tokens. Only the first one may have begun before the step. */
static void describe_tasks(qsa_step *step, const qsa_batch_entry *told)
{
    const uint32_t ratio = step->cache->layout.config.ratio;
    const uint64_t end = told->stored + told->tokens;
    for (uint64_t offset = told->stored; offset < end;) {
        const uint64_t group = offset / ratio * ratio, stop = group + ratio < end ? group + ratio : end;
        qsa_append_task *task = &step->tasks[step->batch.n_tasks++];
        *task = (qsa_append_task){.first = qsa_batch_place(told, group),
                                  .first_token = told->first_token + (uint32_t)(offset - told->stored),
                                  .skipped = (uint32_t)(offset - group),
                                  .tokens = (uint32_t)(stop - offset),
                                  .complete = stop == group + ratio};
        task->rotary_row = task->first_token;
        if (task->complete && task->skipped > 0) {
            task->rotary_row = step->batch.n_rows++;
            qsa_page_cos_sin(step->cache, task->first, rotary_row(step, task->rotary_row));
        }
        offset = stop;
    }
}

static void describe(qsa_step *step)
{
    qsa_float_env saved = qsa_float_env_enter();
    describe_tokens(step);
    step->batch.n_tasks = 0;
    for (uint32_t e = 0; e < step->batch.n_entries; e++)
        describe_tasks(step, &step->batch_entries[e]);
    assert(step->batch.n_tasks <= step->batch.n_tokens && step->batch.n_rows <= 2 * step->batch.n_tokens);
    qsa_float_env_leave(saved);
}

qsa_status qsa_step_begin(qsa_cache *cache, const qsa_entry *entries, size_t n, qsa_step **out_step)
{
    QSA_TRY(qsa_cache_idle(cache));
    if (out_step == NULL || entries == NULL || n == 0)
        return qsa_fail(QSA_E_ARGUMENT, "begin: NULL argument or no entry");
    if (n > cache->layout.config.max_step_tokens)
        return qsa_fail(QSA_E_LIMIT, "begin: %zu entries, more than %" PRIu32 " tokens (max_step_tokens)", n,
                        cache->layout.config.max_step_tokens);
    qsa_step *step = qsa_step_of(cache);
    step->stamp++;
    step->batch.n_entries = (uint32_t)n;
    step->batch.n_tokens = 0;
    step_need need = {0};
    for (size_t i = 0; i < n; i++)
        QSA_TRY(plan_entry(step, &entries[i], i, &need));
    if (need.pages > cache->n_free)
        return qsa_fail(QSA_E_FULL, "the step needs %" PRIu64 " pages of %d tokens, %" PRIu32 " are free", need.pages,
                        QSA_PAGE_TOKENS, cache->n_free);
    QSA_TRY(qsa_table_check_free(cache, "the step", need.chunks));
    for (uint32_t e = 0; e < n; e++)
        reserve(step, e);
    memset(step->layer_done, 0, cache->layout.config.layers);
    step->layer.announced = false;
    qsa_refusals_begin(&step->refusals);
    atomic_store(&step->failure.status, QSA_OK);
    cache->step_open = true;
    qsa_status status = copy_shared_pages(step);
    if (status == QSA_OK) {
        describe(step);
        status = cache->store->operations->begin(cache->store, &step->batch);
    }
    if (status != QSA_OK) {
        qsa_step_abort(step);
        return status;
    }
    cache->counters.layouts++;
    *out_step = step;
    return QSA_OK;
}

/* Frees what no later query can attend to. */
static void slide(qsa_cache *cache, qsa_sequence *sequence)
{
    int64_t anchor =
        qsa_run_window_anchor(sequence->anchor, sequence->frontier, cache->layout.config.ratio, sequence->window);
    if (anchor > sequence->anchor)
        qsa_sequence_drop_front(cache, sequence, (uint64_t)(anchor - sequence->anchor));
}

/* Publishes the first `kept` tokens of an entry and returns the pages that they do not need, last to first, so that the
 * free stack gets them back in the order in which they were taken. */
static void publish(qsa_step *step, uint32_t number, uint32_t kept)
{
    qsa_cache *cache = step->cache;
    const qsa_step_entry *entry = &step->entries[number];
    const uint64_t stored = step->batch_entries[number].stored;
    qsa_sequence *sequence = entry->sequence;
    assert(cache->step_open && kept <= step->batch_entries[number].tokens);
    if (kept == 0 && entry->has_replaced) {
        uint32_t *last = qsa_sequence_page(sequence, sequence->n_pages - 1);
        const uint32_t copy = *last;
        *last = entry->replaced;
        sequence->n_pages += entry->new_pages;
        qsa_sequence_trim(cache, sequence, stored);
        qsa_page_drop(cache, copy);
        return;
    }
    sequence->n_pages += entry->new_pages;
    qsa_sequence_trim(cache, sequence, stored + kept);
    if (entry->has_replaced)
        qsa_page_drop(cache, entry->replaced);
    if (kept == 0)
        return;
    if (!sequence->placed) {
        sequence->anchor = sequence->frontier = entry->position;
        sequence->placed = true;
    }
    sequence->frontier += kept;
    cache->counters.tokens += kept;
    slide(cache, sequence);
}

void qsa_step_abort(qsa_step *step)
{
    if (step == NULL || !step->cache->step_open)
        return;
    for (uint32_t e = step->batch.n_entries; e-- > 0;)
        publish(step, e, 0);
    step->cache->step_open = false;
    (void)qsa_cache_settled(step->cache, QSA_OK);
}

static qsa_status check_commit(qsa_step *step, const uint32_t *keep)
{
    QSA_TRY(qsa_step_error(step));
    for (uint32_t layer = 0; layer < step->cache->layout.config.layers; layer++)
        if (!step->layer_done[layer])
            return qsa_fail(QSA_E_ORDER, "commit: layer %" PRIu32 " is missing or unfinished", layer);
    for (uint32_t e = 0; keep != NULL && e < step->batch.n_entries; e++)
        if (keep[e] > step->batch_entries[e].tokens)
            return qsa_fail(QSA_E_ARGUMENT, "commit: entry %" PRIu32 ": keep %" PRIu32 " of %" PRIu32 " tokens", e,
                            keep[e], step->batch_entries[e].tokens);
    return QSA_OK;
}

qsa_status qsa_step_commit(qsa_step *step, const uint32_t *keep)
{
    if (step == NULL || !step->cache->step_open)
        return qsa_fail(QSA_E_ORDER, "commit: no step is open");
    qsa_status status = check_commit(step, keep);
    if (status != QSA_OK) {
        qsa_step_abort(step);
        return status;
    }
    for (uint32_t e = step->batch.n_entries; e-- > 0;)
        publish(step, e, keep == NULL ? step->batch_entries[e].tokens : keep[e]);
    step->cache->step_open = false;
    step->cache->counters.steps++;
    return qsa_cache_settled(step->cache, QSA_OK);
}
