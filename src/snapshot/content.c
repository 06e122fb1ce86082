/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows a snapshot holds: derived from sequences (write), and checked against them (read). */
#include "snapshot/content.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

uint32_t qsa_content_pages(const qsa_file_sequence *sequence)
{
    uint64_t tokens = (uint64_t)(sequence->frontier - sequence->anchor);
    return tokens == 0 ? 0 : (uint32_t)qsa_pages_for(sequence->first_slot + tokens);
}

qsa_file_extent qsa_content_used(const qsa_file_sequence *sequence, uint32_t i)
{
    assert(i < sequence->n_pages);
    uint64_t end = sequence->first_slot + (uint64_t)(sequence->frontier - sequence->anchor);
    qsa_file_extent used = {i == 0 ? sequence->first_slot : 0, QSA_PAGE_TOKENS};
    if (i + 1 == sequence->n_pages)
        used.end = (uint32_t)(end - (uint64_t)i * QSA_PAGE_TOKENS);
    return used;
}

static qsa_status bad_sequence(uint32_t number, const char *what)
{
    return qsa_fail(QSA_E_FORMAT, "snapshot: sequences: number %" PRIu32 ": %s", number, what);
}

static qsa_status check_sequence(const qsa_file_sequence *s, uint32_t number, uint32_t ratio)
{
    const int64_t most = QSA_MAX_POSITION;
    if (s->anchor < 0 || s->anchor > most + 1 || s->frontier < s->anchor || s->frontier > most + 1)
        return bad_sequence(number, "anchor and frontier are not a run");
    if (s->frame > most || s->frame < -most)
        return bad_sequence(number, "rotary frame out of range");
    if (s->window != 0 && s->window < ratio)
        return bad_sequence(number, "window below the ratio");
    if (s->placed > 1 || s->reserved != 0 || (!s->placed && (s->anchor != 0 || s->frontier != 0)))
        return bad_sequence(number, "flags");
    if (s->first_slot >= QSA_PAGE_TOKENS || s->first_slot % ratio != 0 ||
        (s->anchor == s->frontier && s->first_slot != 0))
        return bad_sequence(number, "first slot");
    if (s->n_pages != qsa_content_pages(s))
        return bad_sequence(number, "number of pages is not that of its tokens");
    return QSA_OK;
}

qsa_status qsa_content_check_sequences(const qsa_content *content)
{
    uint64_t table = 0;
    for (uint32_t i = 0; i < content->n_sequences; i++) {
        QSA_TRY(check_sequence(&content->sequences[i], i, content->config.ratio));
        table += content->sequences[i].n_pages;
    }
    if (table != content->n_table)
        return qsa_fail(QSA_E_FORMAT, "snapshot: page tables: %" PRIu32 " entries, the sequences need %" PRIu64,
                        content->n_table, table);
    return QSA_OK;
}

static void widen(qsa_file_extent *extent, qsa_file_extent used)
{
    assert(used.begin < used.end && used.end <= QSA_PAGE_TOKENS);
    if (used.begin < extent->begin)
        extent->begin = used.begin;
    if (used.end > extent->end)
        extent->end = used.end;
}

/* expected [n_extents]: the union of what the sequences use, by first appearance. */
qsa_status qsa_content_extents(const qsa_content *content, qsa_file_extent *expected)
{
    uint32_t seen = 0, at = 0;
    for (uint32_t i = 0; i < content->n_sequences; i++)
        for (uint32_t p = 0; p < content->sequences[i].n_pages; p++, at++) {
            uint32_t extent = content->table[at];
            if (extent > seen || extent >= content->n_extents)
                return qsa_fail(QSA_E_FORMAT,
                                "snapshot: page tables: entry %" PRIu32 " is extent %" PRIu32
                                ", expected at most %" PRIu32,
                                at, extent, seen);
            qsa_file_extent used = qsa_content_used(&content->sequences[i], p);
            if (extent == seen) {
                expected[seen++] = used;
                continue;
            }
            widen(&expected[extent], used);
        }
    if (seen != content->n_extents)
        return qsa_fail(QSA_E_FORMAT, "snapshot: extents: %" PRIu32 ", the page tables name %" PRIu32,
                        content->n_extents, seen);
    return QSA_OK;
}

qsa_status qsa_content_check_distinct(const qsa_content *content, uint32_t *last)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < content->n_extents; i++)
        last[i] = UINT32_MAX;
    for (uint32_t i = 0; i < content->n_sequences; i++)
        for (uint32_t p = 0; p < content->sequences[i].n_pages; p++, at++) {
            assert(at < content->n_table && content->table[at] < content->n_extents);
            if (last[content->table[at]] == i)
                return qsa_fail(QSA_E_FORMAT,
                                "snapshot: page tables: entry %" PRIu32 " names extent %" PRIu32
                                " again in one sequence",
                                at, content->table[at]);
            last[content->table[at]] = i;
        }
    return QSA_OK;
}

void qsa_content_count(qsa_content *content)
{
    content->rows = content->pooled_rows = 0;
    for (uint32_t i = 0; i < content->n_extents; i++) {
        content->rows += content->extents[i].end - content->extents[i].begin;
        content->pooled_rows += qsa_extent_groups(&content->extents[i], content->config.ratio);
    }
}
