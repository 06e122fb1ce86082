/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks of page tables: taken, shared, copied on write, dropped. */
#include "cache/cache.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static uint32_t *entries_of(const qsa_cache *cache, uint32_t chunk)
{
    assert(chunk < cache->n_chunks);
    return cache->chunk_entries + (size_t)chunk * QSA_CHUNK_PAGES;
}

static uint32_t take_chunk(qsa_cache *cache)
{
    assert(cache->n_free_chunks > 0);
    const uint32_t chunk = cache->free_chunks[--cache->n_free_chunks];
    assert(cache->chunk_references[chunk] == 0);
    cache->chunk_references[chunk] = 1;
    return chunk;
}

static void drop_chunk(qsa_cache *cache, uint32_t chunk)
{
    assert(cache->n_free_chunks < cache->n_chunks);
    assert(cache->chunk_references[chunk] > 0);
    if (--cache->chunk_references[chunk] == 0)
        cache->free_chunks[cache->n_free_chunks++] = chunk;
}

uint32_t qsa_table_first_entry(int64_t anchor, int64_t frame, uint32_t first_slot)
{
    const int64_t far = INT64_C(1) << 40; /* a multiple of a chunk; makes every sum positive */
    assert(anchor >= 0 && frame > -far / 2 && frame < far / 2 && first_slot < QSA_PAGE_TOKENS);
    return (uint32_t)((far + anchor - frame - first_slot) / QSA_PAGE_TOKENS % QSA_CHUNK_PAGES);
}

uint32_t qsa_table_need(const qsa_cache *cache, const qsa_sequence *sequence, uint32_t first, uint32_t n)
{
    assert(first <= sequence->n_pages && n > 0);
    const uint32_t have = qsa_sequence_chunks(sequence, sequence->n_pages);
    const uint32_t end = qsa_sequence_chunks(sequence, first + n);
    uint32_t need = end > have ? end - have : 0;
    for (uint32_t c = (sequence->first_entry + first) / QSA_CHUNK_PAGES; c < have && c < end; c++)
        need += cache->chunk_references[sequence->table.chunks[c]] > 1;
    return need;
}

qsa_status qsa_table_check_free(const qsa_cache *cache, const char *verb, uint64_t need)
{
    if (need > cache->n_free_chunks)
        return qsa_fail(QSA_E_FULL, "%s needs %" PRIu64 " chunks of page tables, %" PRIu32 " of %" PRIu32 " are free",
                        verb, need, cache->n_free_chunks, cache->n_chunks);
    return QSA_OK;
}

void qsa_table_prepare(qsa_cache *cache, qsa_sequence *sequence, uint32_t first, uint32_t n)
{
    assert(first <= sequence->n_pages && n > 0);
    const uint32_t have = qsa_sequence_chunks(sequence, sequence->n_pages);
    const uint32_t end = qsa_sequence_chunks(sequence, first + n);
    assert(end <= qsa_directory_limit(cache->layout.pages));
    for (uint32_t c = (sequence->first_entry + first) / QSA_CHUNK_PAGES; c < end; c++) {
        uint32_t *own = &sequence->table.chunks[c];
        if (c >= have) {
            *own = take_chunk(cache);
        } else if (cache->chunk_references[*own] > 1) {
            const uint32_t copy = take_chunk(cache);
            memcpy(entries_of(cache, copy), entries_of(cache, *own), QSA_CHUNK_PAGES * sizeof(uint32_t));
            drop_chunk(cache, *own);
            *own = copy;
        }
    }
}

void qsa_table_shrink(qsa_cache *cache, qsa_sequence *sequence, uint32_t n)
{
    assert(n <= sequence->n_pages);
    uint32_t chunks = qsa_sequence_chunks(sequence, sequence->n_pages);
    while (sequence->n_pages > n)
        qsa_page_drop(cache, *qsa_sequence_page(sequence, --sequence->n_pages));
    while (chunks > qsa_sequence_chunks(sequence, n))
        drop_chunk(cache, sequence->table.chunks[--chunks]);
}

void qsa_table_drop_front(qsa_cache *cache, qsa_sequence *sequence, uint32_t n)
{
    assert(n < sequence->n_pages);
    const uint32_t chunks = qsa_sequence_chunks(sequence, sequence->n_pages);
    for (uint32_t i = 0; i < n; i++)
        qsa_page_drop(cache, *qsa_sequence_page(sequence, i));
    const uint32_t dropped = (sequence->first_entry + n) / QSA_CHUNK_PAGES;
    for (uint32_t c = 0; c < dropped; c++)
        drop_chunk(cache, sequence->table.chunks[c]);
    if (dropped > 0) /* rare: the directory moves forward once in QSA_CHUNK_PAGES pages */
        memmove(sequence->table.chunks, sequence->table.chunks + dropped, (chunks - dropped) * sizeof(uint32_t));
    sequence->first_entry = (sequence->first_entry + n) % QSA_CHUNK_PAGES;
    sequence->n_pages -= n;
}

void qsa_table_share(qsa_cache *cache, qsa_sequence *sequence, const qsa_sequence *from, uint32_t n)
{
    assert(sequence->n_pages == 0 && n <= from->n_pages);
    sequence->first_entry = from->first_entry;
    sequence->n_pages = n;
    for (uint32_t i = 0, end; i < n; i = end) {
        const uint64_t at = (uint64_t)sequence->first_entry + i;
        const uint32_t chunk = from->table.chunks[at / QSA_CHUNK_PAGES];
        const uint32_t *pages = entries_of(cache, chunk) + at % QSA_CHUNK_PAGES;
        const uint32_t rest = QSA_CHUNK_PAGES - (uint32_t)(at % QSA_CHUNK_PAGES);
        sequence->table.chunks[at / QSA_CHUNK_PAGES] = chunk;
        cache->chunk_references[chunk]++;
        for (end = i + (n - i < rest ? n - i : rest); i < end; i++)
            cache->references[*pages++]++;
    }
}

/* A chunk whose entries from `begin` on already are these n pages, or a new one with them. */
static qsa_status find_chunk(qsa_cache *cache, uint32_t begin, const uint32_t *pages, uint32_t n, uint32_t *out)
{
    assert(n > 0 && begin + n <= QSA_CHUNK_PAGES);
    const uint32_t known = cache->chunk_of[pages[n - 1]]; /* a hint; the chunk may have been reused */
    if (cache->chunk_references[known] > 0 && memcmp(entries_of(cache, known) + begin, pages, n * sizeof *pages) == 0) {
        cache->chunk_references[known]++;
        *out = known;
        return QSA_OK;
    }
    QSA_TRY(qsa_table_check_free(cache, "the sequence", 1));
    *out = take_chunk(cache);
    memcpy(entries_of(cache, *out) + begin, pages, n * sizeof *pages);
    for (uint32_t i = 0; i < n; i++)
        cache->chunk_of[pages[i]] = *out;
    return QSA_OK;
}

qsa_status qsa_table_fill(qsa_cache *cache, qsa_sequence *sequence, const uint32_t *pages, uint32_t n_pages)
{
    assert(sequence->n_pages == 0 && n_pages <= cache->layout.pages);
    sequence->first_entry = qsa_table_first_entry(sequence->anchor, sequence->frame, sequence->first_slot);
    while (sequence->n_pages < n_pages) {
        const uint32_t at = sequence->first_entry + sequence->n_pages, begin = at % QSA_CHUNK_PAGES;
        const uint32_t rest = n_pages - sequence->n_pages;
        const uint32_t n = rest < QSA_CHUNK_PAGES - begin ? rest : QSA_CHUNK_PAGES - begin;
        uint32_t chunk;
        QSA_TRY(find_chunk(cache, begin, pages + sequence->n_pages, n, &chunk));
        sequence->table.chunks[at / QSA_CHUNK_PAGES] = chunk;
        for (uint32_t i = 0; i < n; i++)
            cache->references[pages[sequence->n_pages++]]++;
    }
    return QSA_OK;
}

void qsa_tables_rename(qsa_cache *cache, const uint32_t *new_names)
{
    for (uint32_t chunk = 0; chunk < cache->n_chunks; chunk++)
        for (uint32_t i = 0; i < QSA_CHUNK_PAGES && cache->chunk_references[chunk] > 0; i++) {
            uint32_t *entry = &entries_of(cache, chunk)[i];
            *entry = new_names[*entry]; /* unused entries too: each is a valid page number */
        }
}
