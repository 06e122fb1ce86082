/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots: state that survives.
 *
 * A snapshot holds one sequence or several of a cache: positions, rotary frame and triples, K, V, raw and pooled keys
 * of every layer, and opaque sections of the host. What sequences share stays shared. The format is versioned and
 * written down in docs/SNAPSHOT.md; it is streamed both ways and does not depend on pages, threads or instruction set:
 * the same state gives the same bytes.
 *
 * Reading is all or nothing: into a live cache, beside other sequences. Bytes are taken for hostile; a snapshot of
 * another shape, precision, model or version is refused with both values named. During a step both are QSA_E_BUSY. */
#ifndef QSA_SNAPSHOT_H
#define QSA_SNAPSHOT_H

#include <qsa/cache.h>

QSA_BEGIN_DECLS

enum { QSA_SNAPSHOT_VERSION = 1, QSA_SNAPSHOT_MAX_SECTIONS = 64 };

/* Where bytes go. Returns QSA_OK when all of them are taken; anything else ends the write with that status. */
typedef struct qsa_writer {
    qsa_status (*write)(void *context, const void *bytes, size_t size_bytes);
    void *context;
} qsa_writer;

/* Where bytes come from. Fills all of `bytes`; a shorter source is QSA_E_FORMAT or QSA_E_IO, as the host sees fit. */
typedef struct qsa_reader {
    qsa_status (*read)(void *context, void *bytes, size_t size_bytes);
    void *context;
} qsa_reader;

/* A part of the host's own state. */
typedef struct qsa_section {
    uint32_t tag; /* the host's; each at most once */
    const void *data;
    uint64_t size_bytes;
} qsa_section;

/* What was read. Memory belongs to the content until qsa_snapshot_free. */
typedef struct qsa_snapshot {
    qsa_seq *sequences; /* [n_sequences] newly opened; NULL after qsa_snapshot_inspect */
    uint32_t n_sequences;
    qsa_section *sections; /* [n_sections] */
    uint32_t n_sections;
    uint32_t version;
    uint64_t model_digest;
    uint64_t rows;           /* token rows stored, shared ones once */
    uint64_t size_bytes;     /* of the whole snapshot */
    qsa_config config;       /* shape and precision; sizes (capacity, ...) are 0 */
    qsa_seq_info *infos;     /* [n_sequences] */
    qsa_allocator allocator; /* where the memory came from: the cache's */
} qsa_snapshot;

/* Writes sequences[n] and sections[n_sections]. model_digest: the host's fingerprint of its weights, checked when read.
 * Errors: QSA_E_BUSY, QSA_E_SEQUENCE (not open, or twice), QSA_E_ARGUMENT, QSA_E_LIMIT (sections), QSA_E_MEMORY, the
 * writer's. */
QSA_API qsa_status qsa_snapshot_write(const qsa_cache *cache, const qsa_seq *sequences, size_t n,
                                      const qsa_section *sections, size_t n_sections, uint64_t model_digest,
                                      const qsa_writer *writer);

/* Opens the snapshot's sequences in the cache. On any error the cache is as before and out_snapshot untouched.
 * Errors: QSA_E_FORMAT (naming the part), QSA_E_UNSUPPORTED (version, shape, precision or model: both values),
 * QSA_E_FULL (pages, sequences), QSA_E_MEMORY, QSA_E_BUSY, the reader's. */
QSA_API qsa_status qsa_snapshot_read(qsa_cache *cache, uint64_t model_digest, const qsa_reader *reader,
                                     qsa_snapshot *out_snapshot);

/* Reads and checks a whole snapshot without a cache. */
QSA_API qsa_status qsa_snapshot_inspect(const qsa_reader *reader, qsa_snapshot *out_snapshot);

/* Frees the memory of a snapshot; its sequences stay open. */
QSA_API void qsa_snapshot_free(qsa_snapshot *snapshot);

/* The same for a file. Saving writes a temporary file beside `path`, syncs it, renames it and syncs the folder: at any
 * moment `path` is the old file or the new one, whole. Errors: QSA_E_IO with the system's word, and those above. */
QSA_API qsa_status qsa_snapshot_save(const qsa_cache *cache, const qsa_seq *sequences, size_t n,
                                     const qsa_section *sections, size_t n_sections, uint64_t model_digest,
                                     const char *path);
QSA_API qsa_status qsa_snapshot_load(qsa_cache *cache, uint64_t model_digest, const char *path,
                                     qsa_snapshot *out_snapshot);
QSA_API qsa_status qsa_snapshot_inspect_file(const char *path, qsa_snapshot *out_snapshot);

QSA_END_DECLS
#endif
