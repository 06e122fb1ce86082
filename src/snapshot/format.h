/* SPDX-License-Identifier: Apache-2.0 */
/* The snapshot format of docs/SNAPSHOT.md as structs. All integers are little-endian. */
#ifndef QSA_SNAPSHOT_FORMAT_H
#define QSA_SNAPSHOT_FORMAT_H

#include "base/hash.h"
#include "cache/cache.h"

#include <qsa/snapshot.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "snapshots are written as they lie in memory, which has to be little-endian"
#endif

#define QSA_SNAPSHOT_MAGIC "QSASNAP\n"

#define QSA_TAG(a, b, c, d) ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

enum {
    QSA_TAG_CONFIG = QSA_TAG('C', 'O', 'N', 'F'),
    QSA_TAG_SEQUENCES = QSA_TAG('S', 'E', 'Q', 'S'),
    QSA_TAG_TABLES = QSA_TAG('T', 'A', 'B', 'L'),
    QSA_TAG_EXTENTS = QSA_TAG('E', 'X', 'T', 'S'),
    QSA_TAG_TRIPLES = QSA_TAG('T', 'R', 'I', 'P'),
    QSA_TAG_K = QSA_TAG('K', ' ', ' ', ' '),
    QSA_TAG_V = QSA_TAG('V', ' ', ' ', ' '),
    QSA_TAG_RAW = QSA_TAG('R', 'A', 'W', ' '),
    QSA_TAG_POOLED = QSA_TAG('P', 'O', 'O', 'L'),
    QSA_TAG_HOST = QSA_TAG('H', 'O', 'S', 'T'),
    QSA_TAG_END = QSA_TAG('E', 'N', 'D', ' ')
};

typedef struct qsa_file_head {
    char magic[8];
    uint32_t version;
    uint32_t reserved; /* 0 */
} qsa_file_head;

/* Precedes every section; the XXH3 of head and bytes follows the bytes. */
typedef struct qsa_section_head {
    uint32_t tag;
    uint32_t number; /* layer, or the host's tag; otherwise 0 */
    uint64_t rows;
    uint64_t size_bytes;
} qsa_section_head;

typedef struct qsa_file_config {
    uint64_t model_digest, norms_digest;
    uint32_t layers, q_heads, kv_heads, head_dim, index_heads, index_dim, ratio, budget, rotary_dim, sections[3];
    float theta, eps, yarn_factor, yarn_original_context, yarn_beta_fast, yarn_beta_slow, yarn_attention_factor;
    uint32_t kv_type, profile, host_sections;
} qsa_file_config;

typedef struct qsa_file_sequence {
    int64_t anchor, frontier, frame;
    uint64_t window;
    uint32_t first_slot, n_pages;
    uint32_t placed, reserved; /* 0 or 1; 0 */
} qsa_file_sequence;

/* The used slots [begin, end) of one page. */
typedef struct qsa_file_extent {
    uint32_t begin, end;
} qsa_file_extent;

_Static_assert(sizeof(qsa_file_head) == 16, "file layout");
_Static_assert(sizeof(qsa_section_head) == 24, "file layout");
_Static_assert(sizeof(qsa_file_config) == 104, "file layout");
_Static_assert(sizeof(qsa_file_sequence) == 48, "file layout");
_Static_assert(sizeof(qsa_file_extent) == 8, "file layout");
_Static_assert(sizeof(qsa_triple) == 12, "file layout");

/* What a snapshot holds, in file order; arrays are owned by whoever filled them. */
typedef struct qsa_content {
    qsa_file_config config;
    uint32_t n_sequences, n_extents, n_table;
    qsa_file_sequence *sequences; /* [n_sequences] */
    uint32_t *table;              /* [n_table] extents of all sequences, one sequence after the other */
    qsa_file_extent *extents;     /* [n_extents] in order of their first appearance in table */
    uint64_t rows, pooled_rows;
} qsa_content;

/* qsa_snapshot_write; explains: the writer sets the detail when it fails. */
qsa_status qsa_snapshot_stream(const qsa_cache *cache, const qsa_seq *sequences, size_t n, const qsa_section *sections,
                               size_t n_sections, uint64_t model_digest, const qsa_writer *writer, bool explains);

qsa_file_config qsa_snapshot_config(const qsa_cache *cache, uint64_t model_digest, uint32_t host_sections);

/* Complete groups of an extent. */
static inline uint32_t qsa_extent_groups(const qsa_file_extent *extent, uint32_t ratio)
{
    return extent->end / ratio - extent->begin / ratio;
}

/* Of a layer's tensors, which are in file order. */
extern const uint32_t qsa_tensor_tags[QSA_TENSOR_COUNT];

/* Bytes of one extent in a tensor: K, V [kv_heads][rows][head_dim]; raw [rows][index_dim]; pooled [groups][index_dim].
 */
uint64_t qsa_extent_bytes(const qsa_layout *layout, qsa_tensor tensor, const qsa_file_extent *extent);
/* Copies between a page and the value order of the file. Fails only if the device does. */
qsa_status qsa_extent_pack(const qsa_cache *cache, uint32_t layer, qsa_tensor tensor, uint32_t page,
                           const qsa_file_extent *extent, uint8_t *out);
qsa_status qsa_extent_unpack(qsa_cache *cache, uint32_t layer, qsa_tensor tensor, uint32_t page,
                             const qsa_file_extent *extent, const uint8_t *in);
/* Largest extent of any tensor. */
uint64_t qsa_extent_limit(const qsa_layout *layout);

#endif
