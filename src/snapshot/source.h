/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a snapshot's sections, hashing them on the way, and arrays whose length the file claims. */
#ifndef QSA_SNAPSHOT_SOURCE_H
#define QSA_SNAPSHOT_SOURCE_H

#include "snapshot/format.h"

typedef struct qsa_source {
    const qsa_reader *reader;
    bool explains; /* the reader is the library's own: its failures set the detail */
    const qsa_allocator *allocator;
    qsa_hash section, whole;
    qsa_section_head head; /* of the section being read */
    uint64_t total;        /* bytes so far */
} qsa_source;

/* Reads bytes of the section. */
qsa_status qsa_source_take(qsa_source *source, void *bytes, size_t size);
/* Reads a section's head and checks its tag and number. */
qsa_status qsa_source_open(qsa_source *source, uint32_t tag, uint32_t number);
/* The same, and checks its rows and bytes too. */
qsa_status qsa_source_expect(qsa_source *source, uint32_t tag, uint32_t number, uint64_t rows, uint64_t size);
/* Reads and compares the section's checksum. */
qsa_status qsa_source_close(qsa_source *source);

/* Allocates and reads the rest of the open section. Memory grows as bytes arrive, so a hostile length costs no more
 * than the file really holds. */
typedef struct qsa_bytes {
    uint8_t *data;
    uint64_t size, capacity;
} qsa_bytes;

qsa_status qsa_source_take_all(qsa_source *source, uint64_t size, qsa_bytes *out);
void qsa_bytes_free(const qsa_allocator *allocator, qsa_bytes *bytes);

/* qsa_snapshot_read, or qsa_snapshot_inspect if cache is NULL. at_end (with the reader's context; NULL: none) runs
 * after all bytes and before anything is published; its error refuses the snapshot. Such a reader sets the detail when
 * it fails. */
qsa_status qsa_snapshot_restore(qsa_cache *cache, uint64_t model_digest, const qsa_reader *reader,
                                qsa_status (*at_end)(void *context), qsa_snapshot *out_snapshot);

qsa_status qsa_source_bad(const qsa_source *source, const char *what);

#endif
