/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a sequence: open, rewind, close. */
#include "cache/cache.h"

#include <inttypes.h>
#include <string.h>

qsa_status qsa_cache_idle(const qsa_cache *cache)
{
    if (cache == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "cache is NULL");
    if (cache->step_open)
        return qsa_fail(QSA_E_BUSY, "a step is open: commit or abort it first");
    return QSA_OK;
}

qsa_status qsa_sequence_find(const qsa_cache *cache, qsa_seq seq, qsa_sequence **out)
{
    *out = NULL;
    if (seq.slot < cache->config.max_sequences) {
        qsa_sequence *sequence = &cache->sequences[seq.slot];
        if (sequence->open && sequence->generation == seq.generation) {
            *out = sequence;
            return QSA_OK;
        }
    }
    return qsa_fail(QSA_E_SEQUENCE, "sequence %" PRIu32 " (generation %" PRIu32 ") is not open in this cache", seq.slot,
                    seq.generation);
}

void qsa_sequence_trim(qsa_cache *cache, qsa_sequence *sequence, uint64_t tokens)
{
    uint32_t needed = tokens == 0 ? 0 : (uint32_t)qsa_pages_for(sequence->first_slot + tokens);
    while (sequence->n_pages > needed)
        qsa_page_drop(cache, sequence->table[--sequence->n_pages]);
    if (tokens == 0) {
        sequence->first_slot = 0;
        sequence->table = sequence->tables;
    }
}

void qsa_sequence_make_room(const qsa_cache *cache, qsa_sequence *sequence, uint64_t pages)
{
    uint64_t begin = (uint64_t)(sequence->table - sequence->tables);
    if (begin + pages <= 2 * cache->layout.pages)
        return;
    memmove(sequence->tables, sequence->table, sequence->n_pages * sizeof(uint32_t));
    sequence->table = sequence->tables;
}

void qsa_sequence_drop_front(qsa_cache *cache, qsa_sequence *sequence, uint64_t tokens)
{
    sequence->anchor += (int64_t)tokens;
    if (sequence->anchor == sequence->frontier) {
        qsa_sequence_trim(cache, sequence, 0);
        return;
    }
    uint64_t slots = sequence->first_slot + tokens;
    for (uint64_t i = 0; i < slots / QSA_PAGE_TOKENS; i++) {
        qsa_page_drop(cache, *sequence->table++);
        sequence->n_pages--;
    }
    sequence->first_slot = (uint32_t)(slots % QSA_PAGE_TOKENS);
}

qsa_status qsa_sequence_vacant(const qsa_cache *cache, uint32_t *out_slot)
{
    *out_slot = 0;
    for (uint32_t slot = 0; slot < cache->config.max_sequences; slot++)
        if (!cache->sequences[slot].open) {
            *out_slot = slot;
            return QSA_OK;
        }
    return qsa_fail(QSA_E_FULL, "all %" PRIu32 " sequences (max_sequences) are open", cache->config.max_sequences);
}

qsa_seq qsa_sequence_occupy(qsa_cache *cache, uint32_t slot)
{
    qsa_sequence *sequence = &cache->sequences[slot];
    uint32_t generation = sequence->generation + 1;
    if (generation == 0) /* wrapped; {0} is no handle */
        generation = 1;
    *sequence =
        (qsa_sequence){.generation = generation, .open = true, .table = sequence->tables, .tables = sequence->tables};
    return (qsa_seq){slot, generation};
}

qsa_status qsa_seq_open(qsa_cache *cache, qsa_seq *out_seq)
{
    QSA_TRY(qsa_cache_idle(cache));
    if (out_seq == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "open: NULL argument");
    uint32_t slot;
    QSA_TRY(qsa_sequence_vacant(cache, &slot));
    *out_seq = qsa_sequence_occupy(cache, slot);
    return QSA_OK;
}

qsa_status qsa_seq_close(qsa_cache *cache, qsa_seq seq)
{
    QSA_TRY(qsa_cache_idle(cache));
    qsa_sequence *sequence;
    QSA_TRY(qsa_sequence_find(cache, seq, &sequence));
    qsa_sequence_trim(cache, sequence, 0);
    sequence->open = false;
    return QSA_OK;
}

qsa_status qsa_seq_query(const qsa_cache *cache, qsa_seq seq, qsa_seq_info *out_info)
{
    if (cache == NULL || out_info == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "query: NULL argument");
    qsa_sequence *sequence;
    QSA_TRY(qsa_sequence_find(cache, seq, &sequence));
    uint64_t tokens = (uint64_t)(sequence->frontier - sequence->anchor);
    *out_info = (qsa_seq_info){.anchor = sequence->anchor,
                               .frontier = sequence->frontier,
                               .rotary_frame = sequence->frame,
                               .window = sequence->window,
                               .tokens = tokens,
                               .groups = tokens / cache->layout.ratio,
                               .pages = (tokens == 0) ? 0 : qsa_pages_for(sequence->first_slot + tokens)};
    return QSA_OK;
}

qsa_status qsa_seq_rewind(qsa_cache *cache, qsa_seq seq, int64_t to)
{
    QSA_TRY(qsa_cache_idle(cache));
    qsa_sequence *sequence;
    QSA_TRY(qsa_sequence_find(cache, seq, &sequence));
    if (to < sequence->anchor || to > sequence->frontier)
        return qsa_fail(QSA_E_RANGE, "rewind to %" PRId64 " is outside [%" PRId64 ", %" PRId64 "]", to,
                        sequence->anchor, sequence->frontier);
    sequence->frontier = to;
    qsa_sequence_trim(cache, sequence, (uint64_t)(to - sequence->anchor));
    return QSA_OK;
}
