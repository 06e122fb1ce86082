/* SPDX-License-Identifier: Apache-2.0 */
/* Page tables (docs/adr/0009). A table lists the pages of one sequence in order. It is stored in chunks of
 * QSA_CHUNK_PAGES page numbers, which tables share: a fork uses its parent's chunks until one of the two writes. All
 * chunks are in one array; a table's directory has the indices of its own. */
#ifndef QSA_DEVICE_TABLE_H
#define QSA_DEVICE_TABLE_H

#include <qsa/config.h>

enum { QSA_CHUNK_PAGES = 128, QSA_CHUNK_TOKENS = QSA_CHUNK_PAGES * QSA_PAGE_TOKENS };

/* The place of a token. */
typedef struct qsa_place {
    uint32_t page, slot;
} qsa_place;

typedef struct qsa_table {
    uint32_t *entries; /* [all chunks][QSA_CHUNK_PAGES] page numbers */
    uint32_t *chunks;  /* directory: the table's chunks in order */
} qsa_table;

/* Entry i, counted from the start of the table's first chunk. */
static inline uint32_t *qsa_table_at(const qsa_table *table, uint64_t i)
{
    return &table->entries[(size_t)table->chunks[i / QSA_CHUNK_PAGES] * QSA_CHUNK_PAGES + i % QSA_CHUNK_PAGES];
}

/* Slots count from the start of the table's first chunk, too. */
static inline qsa_place qsa_table_place(const qsa_table *table, uint64_t slot)
{
    return (qsa_place){*qsa_table_at(table, slot / QSA_PAGE_TOKENS), (uint32_t)(slot % QSA_PAGE_TOKENS)};
}

/* Most chunks of one table: `pages` pages may begin and end anywhere in a chunk. */
static inline uint64_t qsa_directory_limit(uint64_t pages)
{
    return pages / QSA_CHUNK_PAGES + 2;
}

/* Chunks of a cache: enough for all states that steps and verbs can bring its sequences to (ADR 9 counts them). */
static inline uint64_t qsa_chunks_limit(uint64_t pages, uint64_t sequences)
{
    return pages / QSA_CHUNK_PAGES + 3 * (sequences + 1);
}

#endif
