/* SPDX-License-Identifier: Apache-2.0 */
/* Begin, commit and abort: what a step reserves, and how it becomes visible. */
#include "base/float_env.h"
#include "index/rotary.h"
#include "run/run.h"
#include "step/step.h"

#include <inttypes.h>
#include <string.h>

static uint64_t append_units(const qsa_step_entry *entry, uint32_t ratio)
{
    return (entry->stored + entry->tokens - 1) / ratio - entry->first_group + 1;
}

static qsa_status plan_triples(qsa_step *step, const qsa_step_entry *planned, const qsa_entry *entry, size_t number)
{
    for (uint32_t t = 0; t < entry->tokens; t++) {
        int32_t position = (int32_t)(entry->position + t);
        qsa_triple triple = entry->triples == NULL ? (qsa_triple){position, position, position} : entry->triples[t];
        QSA_TRY(
            qsa_run_relative(triple, planned->sequence->frame, number, t, &step->relative[planned->first_token + t]));
        step->token_entry[planned->first_token + t] = (uint32_t)number;
    }
    return QSA_OK;
}

/* Checks one entry and writes down what it will need; changes nothing of the cache. */
static qsa_status plan_entry(qsa_step *step, const qsa_entry *entry, size_t number, uint64_t *pages)
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
    if (entry->tokens > cache->config.max_step_tokens - step->n_tokens)
        return qsa_fail(QSA_E_LIMIT, "entry %zu: more than %" PRIu32 " tokens (max_step_tokens) in one step", number,
                        cache->config.max_step_tokens);
    if (sequence->placed)
        QSA_TRY(qsa_run_check_append(sequence->frontier, entry->position, entry->tokens, number));
    else
        QSA_TRY(qsa_run_check_range(entry->position, entry->tokens, number));
    qsa_step_entry *planned = &step->entries[number];
    *planned = (qsa_step_entry){.sequence = sequence,
                                .position = entry->position,
                                .tokens = entry->tokens,
                                .first_token = step->n_tokens,
                                .stored = (uint64_t)(sequence->frontier - sequence->anchor),
                                .first_unit = step->n_units};
    planned->first_group = planned->stored / cache->layout.ratio;
    QSA_TRY(plan_triples(step, planned, entry, number));
    uint64_t slots = sequence->first_slot + planned->stored;
    planned->new_pages = (uint32_t)(qsa_pages_for(slots + entry->tokens) - sequence->n_pages);
    planned->has_replaced = slots % QSA_PAGE_TOKENS != 0 && planned->stored > 0 &&
                            cache->references[sequence->table[sequence->n_pages - 1]] > 1;
    *pages += planned->new_pages + planned->has_replaced;
    step->n_tokens += entry->tokens;
    step->n_units += append_units(planned, cache->layout.ratio);
    return QSA_OK;
}

static void copy_shared_page(qsa_cache *cache, qsa_step_entry *entry)
{
    qsa_sequence *sequence = entry->sequence;
    uint32_t *last = &sequence->table[sequence->n_pages - 1];
    entry->replaced = *last;
    *last = qsa_page_take(cache);
    qsa_page_copy(cache, entry->replaced, *last);
}

/* Cannot fail. The pages are the step's own until commit: no sequence counts them. */
static void reserve(qsa_step *step)
{
    qsa_cache *cache = step->cache;
    const uint32_t pairs = cache->rotary.pairs;
    for (uint32_t e = 0; e < step->n_entries; e++) {
        qsa_step_entry *entry = &step->entries[e];
        if (entry->has_replaced)
            copy_shared_page(cache, entry);
        qsa_sequence_make_room(cache, entry->sequence, (uint64_t)entry->sequence->n_pages + entry->new_pages);
        for (uint32_t i = 0; i < entry->new_pages; i++)
            entry->sequence->table[entry->sequence->n_pages + i] = qsa_page_take(cache);
        for (uint32_t t = 0; t < entry->tokens; t++)
            *qsa_triple_at(cache, qsa_sequence_place(entry->sequence, entry->stored + t)) =
                step->relative[entry->first_token + t];
    }
    qsa_float_env saved = qsa_float_env_enter();
    for (uint32_t t = 0; t < step->n_tokens; t++)
        qsa_rotary_fill(&cache->rotary, step->relative[t], step->cos_sin + (size_t)t * 2 * pairs);
    qsa_float_env_leave(saved);
}

qsa_status qsa_step_begin(qsa_cache *cache, const qsa_entry *entries, size_t n, qsa_step **out_step)
{
    QSA_TRY(qsa_cache_idle(cache));
    if (out_step == NULL || entries == NULL || n == 0)
        return qsa_fail(QSA_E_ARGUMENT, "begin: NULL argument or no entry");
    if (n > cache->config.max_step_tokens)
        return qsa_fail(QSA_E_LIMIT, "begin: %zu entries, more than %" PRIu32 " tokens (max_step_tokens)", n,
                        cache->config.max_step_tokens);
    qsa_step *step = cache->step;
    step->stamp++;
    step->n_entries = (uint32_t)n;
    step->n_tokens = 0;
    step->n_units = 0;
    uint64_t pages = 0;
    for (size_t i = 0; i < n; i++)
        QSA_TRY(plan_entry(step, &entries[i], i, &pages));
    if (pages > cache->n_free)
        return qsa_fail(QSA_E_FULL, "the step needs %" PRIu64 " pages of %d tokens, %" PRIu32 " are free", pages,
                        QSA_PAGE_TOKENS, cache->n_free);
    reserve(step);
    memset(step->layer_done, 0, cache->layout.layers);
    step->layer.announced = false;
    atomic_store(&step->error, UINT64_MAX);
    cache->step_open = true;
    cache->counters.layouts++;
    *out_step = step;
    return QSA_OK;
}

/* Frees what no later query can see. */
static void slide(qsa_cache *cache, qsa_sequence *sequence)
{
    int64_t anchor = qsa_run_window_anchor(sequence->anchor, sequence->frontier, cache->layout.ratio, sequence->window);
    if (anchor > sequence->anchor)
        qsa_sequence_drop_front(cache, sequence, (uint64_t)(anchor - sequence->anchor));
}

/* Publishes the first `kept` tokens of an entry and gives back what they do not need. Last to first, so that pages return
 * to the free stack in the order in which they were taken. */
static void publish(qsa_cache *cache, qsa_step_entry *entry, uint32_t kept)
{
    qsa_sequence *sequence = entry->sequence;
    if (kept == 0 && entry->has_replaced) {
        uint32_t *last = &sequence->table[sequence->n_pages - 1];
        uint32_t copy = *last;
        *last = entry->replaced;
        sequence->n_pages += entry->new_pages;
        qsa_sequence_trim(cache, sequence, entry->stored);
        qsa_page_drop(cache, copy);
        return;
    }
    sequence->n_pages += entry->new_pages;
    qsa_sequence_trim(cache, sequence, entry->stored + kept);
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
    for (uint32_t e = step->n_entries; e-- > 0;)
        publish(step->cache, &step->entries[e], 0);
    step->cache->step_open = false;
}

static qsa_status check_commit(qsa_step *step, const uint32_t *keep)
{
    QSA_TRY(qsa_step_error(step));
    for (uint32_t layer = 0; layer < step->cache->layout.layers; layer++)
        if (!step->layer_done[layer])
            return qsa_fail(QSA_E_ORDER, "commit: layer %" PRIu32 " is missing or unfinished", layer);
    for (uint32_t e = 0; keep != NULL && e < step->n_entries; e++)
        if (keep[e] > step->entries[e].tokens)
            return qsa_fail(QSA_E_ARGUMENT, "commit: entry %" PRIu32 ": keep %" PRIu32 " of %" PRIu32 " tokens", e,
                            keep[e], step->entries[e].tokens);
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
    for (uint32_t e = step->n_entries; e-- > 0;)
        publish(step->cache, &step->entries[e], keep == NULL ? step->entries[e].tokens : keep[e]);
    step->cache->step_open = false;
    step->cache->counters.steps++;
    return QSA_OK;
}
