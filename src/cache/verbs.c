/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs that change or share a run. Each first does everything that can fail, then publishes. */
#include "cache/cache.h"

#include <inttypes.h>
#include <string.h>

static qsa_status check_within(const char *verb, const qsa_sequence *sequence, int64_t position)
{
    if (position < sequence->anchor || position > sequence->frontier)
        return qsa_fail(QSA_E_RANGE, "%s at %" PRId64 " is outside [%" PRId64 ", %" PRId64 "]", verb, position,
                        sequence->anchor, sequence->frontier);
    return QSA_OK;
}

static qsa_status check_free(const qsa_cache *cache, const char *verb, uint64_t pages)
{
    if (pages > cache->n_free)
        return qsa_fail(QSA_E_FULL, "%s needs %" PRIu64 " pages of %d tokens, %" PRIu32 " are free", verb, pages,
                        QSA_PAGE_TOKENS, cache->n_free);
    return QSA_OK;
}

/* ---- evict ---- */

/* Copies the `kept` tokens from `dropped` on to the start of another run, in copies that stay within pages. */
static qsa_status copy_run(qsa_cache *cache, const qsa_sequence *from, uint64_t dropped, const qsa_sequence *to,
                           uint64_t kept)
{
    assert(dropped + kept == qsa_sequence_tokens(from));
    for (uint64_t t = 0, n; t < kept; t += n) {
        const qsa_place source = qsa_sequence_place(from, dropped + t), target = qsa_sequence_place(to, t);
        const uint32_t slot = source.slot > target.slot ? source.slot : target.slot;
        n = QSA_PAGE_TOKENS - slot < kept - t ? QSA_PAGE_TOKENS - slot : kept - t;
        QSA_TRY(qsa_slots_copy(cache, source, target, (uint32_t)n));
    }
    return QSA_OK;
}

static qsa_status pool_run(qsa_cache *cache, const qsa_sequence *sequence, uint64_t tokens)
{
    assert(sequence->first_slot == 0);
    const uint64_t groups = tokens / cache->layout.config.ratio;
    for (uint64_t g = 0, n; g < groups; g += n) {
        n = groups - g < cache->layout.page_groups ? groups - g : cache->layout.page_groups;
        QSA_TRY(qsa_page_pool(cache, qsa_sequence_place(sequence, g * cache->layout.config.ratio), (uint32_t)n));
    }
    return QSA_OK;
}

/* Cuts groups anew from the new anchor: moves the run into private pages and pools its keys again from raw keys. */
static qsa_status repack(qsa_cache *cache, qsa_sequence *sequence, int64_t anchor)
{
    const uint64_t dropped = (uint64_t)(anchor - sequence->anchor), kept = qsa_sequence_tokens(sequence) - dropped;
    assert(kept > 0 && dropped > 0);
    const uint32_t pages = (uint32_t)qsa_pages_for(kept);
    QSA_TRY(check_free(cache, "evict", pages));
    qsa_sequence old = *sequence, packed = *sequence;
    packed.anchor = anchor;
    packed.n_pages = packed.first_slot = 0;
    packed.first_entry = qsa_table_first_entry(anchor, packed.frame, 0);
    packed.table.chunks = cache->spare;
    QSA_TRY(qsa_table_check_free(cache, "evict", qsa_table_need(cache, &packed, 0, pages)));
    qsa_table_prepare(cache, &packed, 0, pages);
    while (packed.n_pages < pages)
        *qsa_sequence_page(&packed, packed.n_pages++) = qsa_page_take(cache);
    qsa_status status = copy_run(cache, &old, dropped, &packed, kept);
    if (status == QSA_OK)
        status = pool_run(cache, &packed, kept);
    if (status == QSA_OK) {
        cache->spare = old.table.chunks;
        *sequence = packed;
    }
    qsa_sequence_trim(cache, status == QSA_OK ? &old : &packed, 0);
    return status;
}

static qsa_status evict(qsa_cache *cache, qsa_sequence *sequence, int64_t upto)
{
    assert(upto >= sequence->anchor && upto <= sequence->frontier);
    uint64_t dropped = (uint64_t)(upto - sequence->anchor);
    if (dropped % cache->layout.config.ratio != 0 && upto != sequence->frontier)
        return repack(cache, sequence, upto);
    qsa_sequence_drop_front(cache, sequence, dropped);
    return QSA_OK;
}

qsa_status qsa_seq_evict(qsa_cache *cache, qsa_seq seq, int64_t upto)
{
    qsa_sequence *sequence;
    QSA_TRY(qsa_sequence_find_idle(cache, seq, &sequence));
    QSA_TRY(check_within("evict", sequence, upto));
    return qsa_cache_settled(cache, evict(cache, sequence, upto));
}

qsa_status qsa_seq_remove(qsa_cache *cache, qsa_seq seq, qsa_span span)
{
    qsa_sequence *sequence;
    QSA_TRY(qsa_sequence_find_idle(cache, seq, &sequence));
    if (span.begin > span.end)
        return qsa_fail(QSA_E_ARGUMENT, "remove: the span [%" PRId64 ", %" PRId64 ") is backwards", span.begin,
                        span.end);
    QSA_TRY(check_within("remove", sequence, span.begin));
    QSA_TRY(check_within("remove", sequence, span.end));
    if (span.begin == span.end)
        return QSA_OK;
    if (span.end == sequence->frontier)
        return qsa_seq_rewind(cache, seq, span.begin);
    if (span.begin == sequence->anchor)
        return qsa_cache_settled(cache, evict(cache, sequence, span.end));
    return qsa_fail(QSA_E_HOLE,
                    "remove [%" PRId64 ", %" PRId64 ") would leave a hole between %" PRId64 " and %" PRId64
                    " in [%" PRId64 ", %" PRId64 ")",
                    span.begin, span.end, span.begin - 1, span.end, sequence->anchor, sequence->frontier);
}

/* ---- shift and window: only numbers change ---- */

qsa_status qsa_seq_shift(qsa_cache *cache, qsa_seq seq, int64_t delta)
{
    qsa_sequence *sequence;
    QSA_TRY(qsa_sequence_find_idle(cache, seq, &sequence));
    const int64_t most = QSA_MAX_POSITION;
    if (delta < -2 * most || delta > 2 * most || sequence->frame + delta > most || sequence->frame + delta < -most ||
        (sequence->placed && (sequence->anchor + delta < 0 || sequence->frontier + delta > most + 1)))
        return qsa_fail(QSA_E_RANGE,
                        "shift by %" PRId64 " would move [%" PRId64 ", %" PRId64 ") (frame %" PRId64
                        ") out of 0 .. 2147483647",
                        delta, sequence->anchor, sequence->frontier, sequence->frame);
    if (sequence->placed) {
        sequence->anchor += delta;
        sequence->frontier += delta;
    }
    sequence->frame += delta;
    return qsa_cache_settled(cache, QSA_OK);
}

qsa_status qsa_seq_window(qsa_cache *cache, qsa_seq seq, uint64_t tokens)
{
    qsa_sequence *sequence;
    QSA_TRY(qsa_sequence_find_idle(cache, seq, &sequence));
    if (tokens < cache->layout.config.ratio)
        return qsa_fail(QSA_E_ARGUMENT, "window of %" PRIu64 " tokens is below the ratio %" PRIu32, tokens,
                        cache->layout.config.ratio);
    sequence->window = tokens;
    return qsa_cache_settled(cache, QSA_OK);
}

/* ---- fork and copy ---- */

qsa_status qsa_seq_fork(qsa_cache *cache, qsa_seq seq, int64_t at, qsa_seq *out_seq)
{
    qsa_sequence *from;
    QSA_TRY(qsa_sequence_find_idle(cache, seq, &from));
    if (out_seq == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "fork: NULL argument");
    QSA_TRY(check_within("fork", from, at));
    qsa_sequence model = *from;
    model.frontier = at;
    return qsa_cache_settled(cache, qsa_sequence_adopt(cache, &model, NULL, out_seq));
}

/* Copies the pages of a sequence into new ones. If the device fails, *taken says how many were taken. */
static qsa_status copy_pages(qsa_cache *cache, const qsa_sequence *from, uint32_t *to, uint32_t *taken)
{
    assert(from->n_pages <= cache->n_free);
    qsa_status status = QSA_OK;
    for (*taken = 0; *taken < from->n_pages && status == QSA_OK; ++*taken) {
        to[*taken] = qsa_page_take(cache);
        status = qsa_page_copy(cache, *qsa_sequence_page(from, *taken), to[*taken]);
    }
    return status;
}

qsa_status qsa_seq_copy(qsa_cache *cache, qsa_seq seq, qsa_seq *out_seq)
{
    qsa_sequence *from;
    QSA_TRY(qsa_sequence_find_idle(cache, seq, &from));
    if (out_seq == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "copy: NULL argument");
    QSA_TRY(check_free(cache, "copy", from->n_pages));
    QSA_TRY(qsa_sequence_check_vacant(cache, 1));
    uint32_t taken, *pages = cache->page_map;
    qsa_status status = copy_pages(cache, from, pages, &taken);
    if (status == QSA_OK)
        status = qsa_sequence_adopt(cache, from, pages, out_seq);
    while (taken > 0) /* the copy has references of its own */
        qsa_page_drop(cache, pages[--taken]);
    return qsa_cache_settled(cache, status);
}

/* ---- compact ---- */

/* Moves the page at `from` to `to`; lies_at and holds are inverse permutations. */
static qsa_status exchange(qsa_cache *cache, uint32_t *lies_at, uint32_t *holds, uint32_t from, uint32_t to)
{
    assert(from < cache->layout.pages && to < from);
    QSA_TRY(qsa_page_swap(cache, from, to));
    uint32_t moved = holds[from], displaced = holds[to];
    holds[to] = moved;
    holds[from] = displaced;
    lies_at[moved] = to;
    lies_at[displaced] = from;
    return QSA_OK;
}

/* Rebuilds the free stack so that the lowest page is taken first. */
static void restack_free_pages(qsa_cache *cache)
{
    cache->n_free = 0;
    for (uint32_t page = (uint32_t)cache->layout.pages; page-- > 0;)
        if (cache->references[page] == 0)
            cache->free_pages[cache->n_free++] = page;
}

qsa_status qsa_cache_compact(qsa_cache *cache)
{
    QSA_TRY(qsa_cache_idle(cache));
    const uint32_t pages = (uint32_t)cache->layout.pages;
    uint32_t *lies_at = cache->page_map, *holds = cache->page_map + pages; /* old page number -> new, and back */
    for (uint32_t page = 0; page < pages; page++)
        lies_at[page] = holds[page] = page;
    qsa_status status = QSA_OK; /* a device failure ends the moves; those made are recorded all the same */
    uint32_t next = 0;          /* pages below it are final */
    for (uint32_t slot = 0; slot < cache->layout.config.max_sequences; slot++) {
        const qsa_sequence *sequence = &cache->sequences[slot];
        for (uint32_t i = 0; i < sequence->n_pages && status == QSA_OK; i++) {
            const uint32_t place = lies_at[*qsa_sequence_page(sequence, i)];
            if (place > next)
                status = exchange(cache, lies_at, holds, place, next);
            if (place >= next && status == QSA_OK) /* otherwise shared with an earlier sequence */
                next++;
        }
    }
    qsa_tables_rename(cache, lies_at);
    restack_free_pages(cache);
    return qsa_cache_settled(cache, status);
}
