/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a sequence: open, rewind, close. */
#include "cache/cache.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>

qsa_status qsa_cache_idle(const qsa_cache *cache)
{
    if (cache == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "cache is NULL");
    if (cache->step_open)
        return qsa_fail(QSA_E_BUSY, "a step is open: commit or abort it first");
    if (cache->calls_host)
        return qsa_fail(QSA_E_BUSY, "an operation of this cache is calling the host: not from inside a callback");
    return QSA_OK;
}

/* Saving and reading back take a const cache, as they change nothing that they could be asked about. The struct itself
 * is never const: it was allocated. */
static void set_calls_host(const qsa_cache *cache, bool calls)
{
    ((qsa_cache *)(uintptr_t)cache)->calls_host = calls;
}

void qsa_cache_hold(const qsa_cache *cache)
{
    assert(!cache->calls_host && !cache->step_open);
    set_calls_host(cache, true);
}

void qsa_cache_release(const qsa_cache *cache)
{
    assert(cache->calls_host);
    set_calls_host(cache, false);
}

qsa_status qsa_sequence_find(const qsa_cache *cache, qsa_seq seq, qsa_sequence **out)
{
    assert(cache != NULL && out != NULL);
    *out = NULL;
    if (seq.slot < cache->layout.config.max_sequences) {
        qsa_sequence *sequence = &cache->sequences[seq.slot];
        if (sequence->open && sequence->generation == seq.generation) {
            *out = sequence;
            return QSA_OK;
        }
    }
    return qsa_fail(QSA_E_SEQUENCE, "sequence %" PRIu32 " (generation %" PRIu32 ") is not open in this cache", seq.slot,
                    seq.generation);
}

qsa_status qsa_sequence_find_idle(const qsa_cache *cache, qsa_seq seq, qsa_sequence **out)
{
    QSA_TRY(qsa_cache_idle(cache));
    return qsa_sequence_find(cache, seq, out);
}

void qsa_sequence_trim(qsa_cache *cache, qsa_sequence *sequence, uint64_t tokens)
{
    assert(sequence->first_slot < QSA_PAGE_TOKENS);
    const uint32_t needed = tokens == 0 ? 0 : (uint32_t)qsa_pages_for(sequence->first_slot + tokens);
    if (needed < sequence->n_pages)
        qsa_table_shrink(cache, sequence, needed);
    if (tokens == 0)
        sequence->first_slot = 0;
}

void qsa_sequence_drop_front(qsa_cache *cache, qsa_sequence *sequence, uint64_t tokens)
{
    assert(tokens % cache->layout.config.ratio == 0 || sequence->anchor + (int64_t)tokens == sequence->frontier);
    sequence->anchor += (int64_t)tokens;
    if (sequence->anchor == sequence->frontier) {
        qsa_sequence_trim(cache, sequence, 0);
        return;
    }
    const uint64_t slots = sequence->first_slot + tokens;
    if (slots >= QSA_PAGE_TOKENS)
        qsa_table_drop_front(cache, sequence, (uint32_t)(slots / QSA_PAGE_TOKENS));
    sequence->first_slot = (uint32_t)(slots % QSA_PAGE_TOKENS);
}

/* ---- open, adopt, close ---- */

qsa_status qsa_sequence_check_vacant(const qsa_cache *cache, uint32_t n)
{
    assert(n <= QSA_MAX_SEQUENCES);
    uint32_t vacant = 0;
    for (uint32_t slot = 0; slot < cache->layout.config.max_sequences && vacant < n; slot++)
        vacant += !cache->sequences[slot].open;
    if (vacant >= n)
        return QSA_OK;
    if (n == 1)
        return qsa_fail(QSA_E_FULL, "all %" PRIu32 " sequences (max_sequences) are open",
                        cache->layout.config.max_sequences);
    return qsa_fail(QSA_E_FULL, "%" PRIu32 " sequences, %" PRIu32 " (of max_sequences) are free", n, vacant);
}

/* Counts the sequences opened in this process, so that no handle is one of another cache too. */
static uint32_t next_generation(void)
{
    static atomic_uint opened;
    uint32_t generation;
    do
        generation = atomic_fetch_add_explicit(&opened, 1, memory_order_relaxed) + 1;
    while (generation == 0); /* wrapped around; {0} is not a handle */
    return generation;
}

qsa_status qsa_sequence_open(qsa_cache *cache, qsa_seq *out)
{
    QSA_TRY(qsa_sequence_check_vacant(cache, 1));
    uint32_t slot = 0;
    while (cache->sequences[slot].open)
        slot++;
    qsa_sequence *sequence = &cache->sequences[slot];
    const uint32_t generation = next_generation();
    *sequence = (qsa_sequence){.generation = generation, .open = true, .table = sequence->table};
    *out = (qsa_seq){slot, generation};
    return QSA_OK;
}

qsa_status qsa_sequence_adopt(qsa_cache *cache, const qsa_sequence *model, const uint32_t *pages, qsa_seq *out)
{
    assert(!cache->step_open && out != NULL && model->anchor >= 0 && model->anchor <= model->frontier);
    assert(model->first_slot < QSA_PAGE_TOKENS && model->first_slot % cache->layout.config.ratio == 0);
    qsa_seq seq;
    QSA_TRY(qsa_sequence_open(cache, &seq));
    qsa_sequence *sequence = &cache->sequences[seq.slot];
    sequence->anchor = model->anchor;
    sequence->frontier = model->frontier;
    sequence->frame = model->frame;
    sequence->window = model->window;
    sequence->placed = model->placed;
    sequence->first_slot = model->anchor == model->frontier ? 0 : model->first_slot;
    const uint32_t n = qsa_sequence_pages(sequence);
    qsa_status status = QSA_OK;
    if (pages == NULL)
        qsa_table_share(cache, sequence, model, n);
    else
        status = qsa_table_fill(cache, sequence, pages, n);
    if (status != QSA_OK) {
        qsa_sequence_close(cache, sequence);
        return status;
    }
    *out = seq;
    return QSA_OK;
}

void qsa_sequence_close(qsa_cache *cache, qsa_sequence *sequence)
{
    assert(sequence->open);
    qsa_sequence_trim(cache, sequence, 0);
    sequence->open = false;
}

qsa_status qsa_seq_open(qsa_cache *cache, qsa_seq *out_seq)
{
    QSA_TRY(qsa_cache_idle(cache));
    if (out_seq == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "open: NULL argument");
    return qsa_cache_settled(cache, qsa_sequence_open(cache, out_seq));
}

qsa_status qsa_seq_close(qsa_cache *cache, qsa_seq seq)
{
    qsa_sequence *sequence;
    QSA_TRY(qsa_sequence_find_idle(cache, seq, &sequence));
    qsa_sequence_close(cache, sequence);
    return qsa_cache_settled(cache, QSA_OK);
}

qsa_status qsa_seq_query(const qsa_cache *cache, qsa_seq seq, qsa_seq_info *out_info)
{
    if (cache == NULL || out_info == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "query: NULL argument");
    qsa_sequence *sequence;
    QSA_TRY(qsa_sequence_find(cache, seq, &sequence));
    uint64_t tokens = qsa_sequence_tokens(sequence);
    *out_info = (qsa_seq_info){.anchor = sequence->anchor,
                               .frontier = sequence->frontier,
                               .rotary_frame = sequence->frame,
                               .window = sequence->window,
                               .tokens = tokens,
                               .groups = tokens / cache->layout.config.ratio,
                               .pages = qsa_sequence_pages(sequence)};
    return QSA_OK;
}

qsa_status qsa_seq_rewind(qsa_cache *cache, qsa_seq seq, int64_t to)
{
    qsa_sequence *sequence;
    QSA_TRY(qsa_sequence_find_idle(cache, seq, &sequence));
    if (to < sequence->anchor || to > sequence->frontier)
        return qsa_fail(QSA_E_RANGE, "rewind to %" PRId64 " is outside [%" PRId64 ", %" PRId64 "]", to,
                        sequence->anchor, sequence->frontier);
    sequence->frontier = to;
    qsa_sequence_trim(cache, sequence, (uint64_t)(to - sequence->anchor));
    return qsa_cache_settled(cache, QSA_OK);
}
