/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair merging: the rules, and the merging of one piece. */
#ifndef QSA_ENGINE_TEXT_MERGES_H
#define QSA_ENGINE_TEXT_MERGES_H

#include "text/list.h"
#include "text/vocabulary.h"

/* Two neighbours that become one token. */
typedef struct merge {
    int32_t left, right, result;
    uint32_t rank; /* place in the file: the lowest goes first */
} merge;

typedef struct merge_table {
    merge *merges; /* sorted by left, right, rank */
    size_t count;
    uint32_t *first; /* [vocabulary + 1]: merges with this left are [first[left], first[left + 1]) */
} merge_table;

/* Errors: as tokenizer_create says of merges. Release also after a failure. */
qsa_status merge_table_init(merge_table *table, const vocabulary *words, const tokenizer_input *input);
void merge_table_release(merge_table *table);

/* A token of the piece under work; the tokens form a list in text order. */
typedef struct merge_symbol {
    int32_t id; /* -1: merged into its left neighbour */
    uint32_t left, right;
} merge_symbol;

/* Working memory, kept from piece to piece. All zeros: none yet. */
typedef struct merge_work {
    merge_symbol *symbols;
    size_t symbols_capacity;
    uint64_t *heap; /* least first; an entry is rank << 32 | place of the left symbol */
    size_t heap_count, heap_capacity;
} merge_work;

void merge_work_release(merge_work *work);

/* Appends the tokens of a piece of 1 to TOKENIZER_MAX_TEXT_BYTES * 3 bytes. Time O(n log n) for any piece. */
qsa_status merge_piece(const merge_table *table, const vocabulary *words, merge_work *work, text_span piece,
                       id_list *out);

#endif
