/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots: state that survives.
 *
 * A snapshot holds one or more sequences of a cache: positions, rotary frame and triples, K, V, raw and pooled keys of
 * every layer, and opaque sections of the host. Shared tokens stay shared. The format is versioned (docs/SNAPSHOT.md),
 * streamed both ways, and independent of pages, threads, device and instruction set: the same state gives the same
 * bytes.
 *
 * Reading is all or nothing, into a live cache, beside other sequences. The bytes are untrusted; a snapshot of another
 * shape, precision, model or version is refused, naming both values. During a step both directions are QSA_E_BUSY.
 *
 * The writer and the reader may call anything but the cache that is saved or restored: what they try there is
 * QSA_E_BUSY (cache.h). */
#ifndef QSA_SNAPSHOT_H
#define QSA_SNAPSHOT_H

#include <qsa/cache.h>

QSA_BEGIN_DECLS

enum { QSA_SNAPSHOT_VERSION = 1, QSA_SNAPSHOT_MAX_SECTIONS = 64 };

/* Where bytes go. write returns QSA_OK if it took all of them; any other status ends the write and is
 * returned, with a detail that says so. */
typedef struct qsa_writer {
    qsa_status (*write)(void *context, const void *bytes, size_t size_bytes);
    void *context;
} qsa_writer;

/* Where bytes come from. read fills all of `bytes`; if the source ends early it returns QSA_E_FORMAT or QSA_E_IO. */
typedef struct qsa_reader {
    qsa_status (*read)(void *context, void *bytes, size_t size_bytes);
    void *context;
} qsa_reader;

/* Opaque state of the host. */
typedef struct qsa_section {
    uint32_t tag; /* the host's choice; each at most once */
    const void *data;
    uint64_t size_bytes;
} qsa_section;

/* What was read. qsa_snapshot_free releases its memory. */
typedef struct qsa_snapshot {
    qsa_seq *sequences; /* [n_sequences], newly opened; NULL after qsa_snapshot_inspect */
    uint32_t n_sequences;
    qsa_section *sections; /* [n_sections] */
    uint32_t n_sections;
    uint32_t version;
    uint64_t model_digest;
    uint64_t tokens;         /* stored ones, shared ones once */
    uint64_t size_bytes;     /* of the whole snapshot */
    qsa_config config;       /* shape and precision; the sizes (capacity, ...) are 0 */
    qsa_seq_info *infos;     /* [n_sequences] */
    qsa_allocator allocator; /* of this memory: the cache's */
} qsa_snapshot;

/* Writes sequences [n] and sections [n_sections]. model_digest is the host's fingerprint of its weights, compared when
 * the snapshot is read. Errors: QSA_E_ARGUMENT, QSA_E_LIMIT (sections), QSA_E_MEMORY, QSA_E_SEQUENCE (not open, or
 * twice), QSA_E_BUSY, the writer's. */
QSA_API qsa_status qsa_snapshot_write(const qsa_cache *cache, const qsa_seq *sequences, size_t n,
                                      const qsa_section *sections, size_t n_sections, uint64_t model_digest,
                                      const qsa_writer *writer);

/* Opens the snapshot's sequences in the cache, beside those that are open.
 * Errors: QSA_E_MEMORY, QSA_E_FULL (pages, page-table chunks, sequences), QSA_E_BUSY, QSA_E_UNSUPPORTED (version,
 * shape, precision or model: both values), QSA_E_FORMAT (naming the section), the reader's. */
QSA_API qsa_status qsa_snapshot_read(qsa_cache *cache, uint64_t model_digest, const qsa_reader *reader,
                                     qsa_snapshot *out_snapshot);

/* Reads and checks a whole snapshot without a cache. Errors: as qsa_snapshot_read, except those of a cache. */
QSA_API qsa_status qsa_snapshot_inspect(const qsa_reader *reader, qsa_snapshot *out_snapshot);

/* Releases the memory of *snapshot; its sequences stay open. NULL is legal. */
QSA_API void qsa_snapshot_free(qsa_snapshot *snapshot);

/* The same for files. Saving writes a temporary file in the same folder, syncs it, renames it and syncs the folder: at
 * any moment `path` is the old file or the new one, whole. Errors: as above, and QSA_E_IO with the system's message. */
QSA_API qsa_status qsa_snapshot_save(const qsa_cache *cache, const qsa_seq *sequences, size_t n,
                                     const qsa_section *sections, size_t n_sections, uint64_t model_digest,
                                     const char *path);
QSA_API qsa_status qsa_snapshot_load(qsa_cache *cache, uint64_t model_digest, const char *path,
                                     qsa_snapshot *out_snapshot);
QSA_API qsa_status qsa_snapshot_inspect_file(const char *path, qsa_snapshot *out_snapshot);

QSA_END_DECLS
#endif
