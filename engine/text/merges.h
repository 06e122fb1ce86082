/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair merging: the merge table, and merging one piece. */
#ifndef QSA_ENGINE_TEXT_MERGES_H
#define QSA_ENGINE_TEXT_MERGES_H

#include "text/list.h"
#include "text/tokenizer_types.h"
#include "text/vocabulary.h"

/* Two adjacent tokens that become one. */
typedef struct merge {
    int32_t left, right, result;
    uint32_t rank; /* index in the file; the lowest rank merges first */
} merge;

typedef struct merge_table {
    merge *merges; /* sorted by left, right, rank */
    size_t count;
    uint32_t *first; /* [vocabulary + 1]: merges of a left token are [first[left], first[left + 1]) */
} merge_table;

/* Errors: those of tokenizer_create about merges. Release also after a failure. */
qsa_status merge_table_init(merge_table *table, const vocabulary *words, const tokenizer_input *input);
void merge_table_release(merge_table *table);

/* A token of the current piece: a node of a doubly linked list in text order. */
typedef struct merge_symbol {
    int32_t id;           /* -1: merged into its left neighbour */
    uint32_t left, right; /* indices of the neighbours */
} merge_symbol;

/* Scratch memory, reused from piece to piece. All zeros: nothing allocated. */
typedef struct merge_work {
    merge_symbol *symbols;
    size_t symbols_capacity;
    uint64_t *heap; /* a min-heap of rank << 32 | index of the left symbol */
    size_t heap_count, heap_capacity;
} merge_work;

void merge_work_release(merge_work *work);

/* Appends the tokens of a piece of 1 to 3 * TOKENIZER_MAX_TEXT_BYTES bytes (NFC may lengthen a text). Time O(n log n)
 * in the worst case. Errors: QSA_E_MEMORY. */
qsa_status merge_piece(const merge_table *table, const vocabulary *words, merge_work *work, text_span piece,
                       id_list *out);

#endif
