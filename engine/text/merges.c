/* SPDX-License-Identifier: Apache-2.0 */
/* Invariants of merging:
 *  1. A live symbol (id >= 0) is in the list. A dead one (id DEAD) has left the list and stays dead.
 *  2. Every adjacent pair that has a merge is in the heap, as its rank and the index of its left symbol.
 *  3. A heap entry may be stale: the pair at its index has changed since. It is valid only if the pair there now has a
 *     merge of exactly that rank; a rank belongs to one pair only. */
#include "text/merges.h"

#include "base/error.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NO_INDEX UINT32_MAX

enum { DEAD = -1 };

/* ---- merge table ---- */

static int compare_merges(const void *a, const void *b)
{
    const merge *x = a, *y = b;
    if (x->left != y->left)
        return x->left < y->left ? -1 : 1;
    if (x->right != y->right)
        return x->right < y->right ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static qsa_status fail_merge(size_t rank, const char *what)
{
    return engine_fail(QSA_E_FORMAT, "merge %zu: %s", rank, what);
}

/* Parses "left right". joined: scratch with room for the bytes of both. */
static qsa_status read_merge(const vocabulary_index *index, text_span text, size_t rank, char *joined, merge *out)
{
    assert(rank < TOKENIZER_MAX_MERGES);
    const char *space = text.count > 0 ? memchr(text.bytes, ' ', text.count) : NULL;
    size_t left_text = space ? (size_t)(space - text.bytes) : 0;
    if (left_text == 0 || left_text + 1 == text.count || memchr(space + 1, ' ', text.count - left_text - 1))
        return fail_merge(rank, "expected two tokens with one space between them");
    size_t left, right;
    if (!alphabet_decode(text.bytes, left_text, joined, &left) ||
        !alphabet_decode(space + 1, text.count - left_text - 1, joined + left, &right))
        return fail_merge(rank, "not written in the byte-level alphabet");
    if (!vocabulary_find(index, joined, left, &out->left))
        return fail_merge(rank, "its left part is not an ordinary token");
    if (!vocabulary_find(index, joined + left, right, &out->right))
        return fail_merge(rank, "its right part is not an ordinary token");
    if (!vocabulary_find(index, joined, left + right, &out->result))
        return fail_merge(rank, "its result is not an ordinary token");
    out->rank = (uint32_t)rank;
    return QSA_OK;
}

static qsa_status read_merges(merge_table *table, const vocabulary *words, const tokenizer_input *input)
{
    static const size_t LONGEST = 2 * TOKENIZER_MAX_TOKEN_BYTES + 1;
    vocabulary_index index;
    char *joined = malloc(LONGEST);
    qsa_status status = vocabulary_index_init(&index, words);
    if (!joined && status == QSA_OK)
        status = engine_fail(QSA_E_MEMORY, "no memory to read merges");
    for (size_t i = 0; i < table->count && status == QSA_OK; i++)
        if (input->merges[i].count > LONGEST)
            status =
                engine_fail(QSA_E_LIMIT, "merge %zu has %zu bytes; at most %zu", i, input->merges[i].count, LONGEST);
        else
            status = read_merge(&index, input->merges[i], i, joined, &table->merges[i]);
    vocabulary_index_release(&index);
    free(joined);
    return status;
}

static void sort_merges(merge_table *table, size_t token_count)
{
    qsort(table->merges, table->count, sizeof *table->merges, compare_merges);
    for (size_t i = 0; i < table->count; i++)
        table->first[table->merges[i].left + 1]++;
    for (size_t id = 0; id < token_count; id++)
        table->first[id + 1] += table->first[id];
    assert(table->first[token_count] == table->count);
}

qsa_status merge_table_init(merge_table *table, const vocabulary *words, const tokenizer_input *input)
{
    assert(words->count > 0 && (input->merges != NULL || input->merge_count == 0));
    memset(table, 0, sizeof *table);
    if (input->merge_count > TOKENIZER_MAX_MERGES)
        return engine_fail(QSA_E_LIMIT, "%zu merges; at most %d", input->merge_count, TOKENIZER_MAX_MERGES);
    table->count = input->merge_count;
    table->merges = calloc(table->count + 1, sizeof *table->merges);
    table->first = calloc(words->count + 1, sizeof *table->first);
    if (!table->merges || !table->first)
        return engine_fail(QSA_E_MEMORY, "no memory for %zu merges", table->count);
    ENGINE_TRY(read_merges(table, words, input));
    sort_merges(table, words->count);
    return QSA_OK;
}

void merge_table_release(merge_table *table)
{
    free(table->merges);
    free(table->first);
    memset(table, 0, sizeof *table);
}

/* The merge of an adjacent pair, of duplicates the first in the file; NULL: the pair does not merge. */
static const merge *find_merge(const merge_table *table, int32_t left, int32_t right)
{
    size_t low = table->first[left], end = table->first[left + 1], high = end;
    assert(left >= 0 && low <= end && end <= table->count);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->merges[middle].right < right)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && table->merges[low].right == right ? &table->merges[low] : NULL;
}

/* ---- heap ---- */

static qsa_status heap_push(merge_work *work, uint64_t entry)
{
    uint64_t *heap = list_grow(work->heap, &work->heap_capacity, work->heap_count + 1, sizeof *heap);
    if (!heap)
        return engine_fail(QSA_E_MEMORY, "no memory to merge a piece of text");
    work->heap = heap;
    size_t at = work->heap_count++;
    while (at > 0 && heap[(at - 1) / 2] > entry) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = entry;
    return QSA_OK;
}

static uint64_t heap_pop(merge_work *work)
{
    assert(work->heap_count > 0);
    uint64_t *heap = work->heap, least = heap[0], last = heap[--work->heap_count];
    size_t at = 0;
    for (size_t child = 1; child < work->heap_count; child = 2 * at + 1) {
        if (child + 1 < work->heap_count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= last)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return least;
}

/* ---- one piece ---- */

void merge_work_release(merge_work *work)
{
    free(work->symbols);
    free(work->heap);
    memset(work, 0, sizeof *work);
}

/* The merge of the symbol at an index with its right neighbour; NULL: there is none. */
static const merge *merge_at(const merge_table *table, const merge_symbol *symbols, uint32_t index)
{
    if (symbols[index].id == DEAD || symbols[index].right == NO_INDEX)
        return NULL;
    return find_merge(table, symbols[index].id, symbols[symbols[index].right].id);
}

/* Pushes the pair at an index, if it has a merge. */
static qsa_status push_pair(const merge_table *table, merge_work *work, uint32_t index)
{
    const merge *rule = index == NO_INDEX ? NULL : merge_at(table, work->symbols, index);
    return rule ? heap_push(work, (uint64_t)rule->rank << 32 | index) : QSA_OK;
}

static qsa_status begin_piece(const merge_table *table, const vocabulary *words, merge_work *work, text_span piece)
{
    assert(piece.count > 0 && piece.count < NO_INDEX);
    merge_symbol *symbols = list_grow(work->symbols, &work->symbols_capacity, piece.count, sizeof *symbols);
    if (!symbols)
        return engine_fail(QSA_E_MEMORY, "no memory to merge a piece of %zu bytes", piece.count);
    work->symbols = symbols;
    work->heap_count = 0;
    for (size_t i = 0; i < piece.count; i++) {
        symbols[i].id = words->byte_tokens[(unsigned char)piece.bytes[i]];
        symbols[i].left = i == 0 ? NO_INDEX : (uint32_t)i - 1;
        symbols[i].right = i + 1 == piece.count ? NO_INDEX : (uint32_t)i + 1;
    }
    for (size_t i = 0; i < piece.count; i++)
        ENGINE_TRY(push_pair(table, work, (uint32_t)i));
    return QSA_OK;
}

/* Merges the symbol at an index with its right neighbour, and pushes the two new pairs. */
static qsa_status apply(const merge_table *table, merge_work *work, uint32_t index, const merge *rule)
{
    merge_symbol *symbols = work->symbols;
    uint32_t gone = symbols[index].right;
    assert(gone != NO_INDEX && symbols[index].id == rule->left && symbols[gone].id == rule->right);
    symbols[index].id = rule->result;
    symbols[index].right = symbols[gone].right;
    symbols[gone].id = DEAD;
    if (symbols[index].right != NO_INDEX)
        symbols[symbols[index].right].left = index;
    ENGINE_TRY(push_pair(table, work, symbols[index].left));
    return push_pair(table, work, index);
}

qsa_status merge_piece(const merge_table *table, const vocabulary *words, merge_work *work, text_span piece,
                       id_list *out)
{
    ENGINE_TRY(begin_piece(table, words, work, piece));
    while (work->heap_count > 0) {
        uint64_t entry = heap_pop(work);
        uint32_t index = (uint32_t)entry;
        const merge *rule = merge_at(table, work->symbols, index);
        if (rule && rule->rank == entry >> 32)
            ENGINE_TRY(apply(table, work, index, rule));
    }
    for (uint32_t index = 0; index != NO_INDEX; index = work->symbols[index].right)
        ENGINE_TRY(id_list_append(out, work->symbols[index].id));
    return QSA_OK;
}
