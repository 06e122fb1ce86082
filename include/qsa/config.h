/* SPDX-License-Identifier: Apache-2.0 */
/* Shape and size of a cache.
 *
 * qsa_config_init() fills in the shape of Qwen3.8-Flash-Next; a host overwrites what its model file says. Nothing in
 * the library is hard-wired to these values. qsa_plan_memory() and qsa_cache_create() refuse an invalid shape by the
 * name of the field. */
#ifndef QSA_CONFIG_H
#define QSA_CONFIG_H

#include <qsa/status.h>

QSA_BEGIN_DECLS

/* Limits; beyond them QSA_E_LIMIT. */
enum {
    QSA_PAGE_TOKENS = 64, /* tokens per page; a page holds QSA_PAGE_TOKENS / ratio groups */
    QSA_MAX_SEQUENCES = 65536,
    QSA_MAX_LAYERS = 1024,
    QSA_MAX_Q_HEADS = 512,
    QSA_MAX_DIM = 1024, /* of a head, main or index */
    QSA_MAX_RATIO = 64,
    QSA_MAX_BUDGET = 65536, /* tokens */
    QSA_MAX_STEP_TOKENS = 65536,
    QSA_MAX_PARTS = 1024,
    QSA_MAX_ROTARY_OFFSET = 1 << 24 /* |coordinate - frame|: the integers that an f32 holds exactly */
};
#define QSA_MAX_POSITION INT64_C(2147483647) /* positions are below 2^31 */

/* Storage type of K and V. */
typedef enum qsa_kv_type {
    QSA_KV_F32 = 0,
    QSA_KV_BF16 = 1,
    QSA_KV_F16 = 2,  /* magnitudes of 65520 and more are refused */
    QSA_KV_Q8_0 = 3, /* blocks of 32 dimensions of one token with an f16 scale; head_dim a multiple of 32 */
    QSA_KV_TYPE_COUNT
} qsa_kv_type;

/* Arithmetic and storage of the index (raw and pooled keys); SPEC section 3. Independent of the K/V type. */
typedef enum qsa_profile { QSA_PROFILE_F32 = 0, QSA_PROFILE_BF16 = 1, QSA_PROFILE_COUNT } qsa_profile;

/* YaRN scaling of the rotary frequencies. factor 0: none, and the other fields mean nothing: a cache resets them to
 * their defaults. */
typedef struct qsa_yarn {
    float factor;           /* 0: no YaRN; otherwise > 0 */
    float original_context; /* L0, tokens, > 0 */
    float beta_fast;        /* default 32 */
    float beta_slow;        /* default 1 */
    float attention_factor; /* on cos and sin; 0: 1 + 0.1 ln(factor), 1 if factor <= 1; at most 2^10 */
} qsa_yarn;

/* Effective norm weights of one layer: 1 + w of a checkpoint, which is what a GGUF stores. Finite, at most 2^40 in
 * magnitude. NULL: all ones. qsa_cache_create copies them. */
typedef struct qsa_norm_weights {
    const float *q;       /* [head_dim] */
    const float *k;       /* [head_dim] */
    const float *index_q; /* [index_dim] */
    const float *index_k; /* [index_dim] */
} qsa_norm_weights;

/* Holds the pages and does the work (device.h). */
typedef struct qsa_device qsa_device;

/* The host's allocator. allocate returns memory aligned to `alignment` (a power of two), or NULL. Neither may call into
 * the cache that it serves: what does is refused with QSA_E_BUSY (cache.h). */
typedef struct qsa_allocator {
    void *(*allocate)(void *context, size_t size_bytes, size_t alignment);
    void (*release)(void *context, void *memory, size_t size_bytes);
    void *context;
} qsa_allocator;

typedef struct qsa_config {
    size_t size_bytes; /* sizeof(qsa_config), set by qsa_config_init */

    /* shape */
    uint32_t layers;               /* QSA layers only; default 12 */
    uint32_t q_heads;              /* default 24; a multiple of kv_heads */
    uint32_t kv_heads;             /* default 2 */
    uint32_t head_dim;             /* D, default 256 */
    uint32_t index_heads;          /* default 4 */
    uint32_t index_dim;            /* default 128 */
    uint32_t ratio;                /* tokens per group, a power of two up to 64; default 4 */
    uint32_t budget;               /* tokens selected besides the tail, a multiple of ratio; default 2048 */
    uint32_t rotary_dim;           /* even, at most head_dim and index_dim; default 64 */
    uint32_t sections[3];          /* rotary pairs of t, h, w (SPEC section 6); default 11, 11, 10 */
    float theta;                   /* rotary base, > 1; default 1e7 */
    float eps;                     /* of the norms, > 0; default 1e-6 */
    qsa_yarn yarn;                 /* default none */
    const qsa_norm_weights *norms; /* [layers], or NULL: all ones */

    /* storage */
    qsa_kv_type kv_type; /* default QSA_KV_BF16 */
    qsa_profile profile; /* default QSA_PROFILE_BF16 */

    /* size; the cache never grows: what does not fit is QSA_E_FULL */
    uint64_t capacity_tokens; /* of all sequences together, rounded up to pages; a sequence takes whole pages.
                                 Default 262144 */
    uint32_t max_sequences;   /* open at one time; default 1 */
    uint32_t max_step_tokens; /* of all entries of a step together; default 512 */
    uint32_t max_parts;       /* parts of a phase that do work; further ones are allowed and do nothing. Default 8 */

    const qsa_allocator *allocator; /* NULL: malloc and free. Copied */
    qsa_device *device;             /* NULL: the host. Must outlive the cache */
} qsa_config;

/* Bytes that qsa_cache_create allocates. Steps, verbs and checks allocate nothing; snapshots and digests do. */
typedef struct qsa_memory_plan {
    uint64_t total_bytes;     /* of all below */
    uint64_t kv_bytes;        /* K and V pages of all layers */
    uint64_t index_bytes;     /* raw and pooled index keys of all layers, rotary triples */
    uint64_t table_bytes;     /* page tables, sequences, reference counts */
    uint64_t scratch_bytes;   /* working memory of one step; does not depend on capacity_tokens */
    uint64_t weight_bytes;    /* norm weights, rotary table */
    uint64_t device_bytes;    /* working memory of a step on a device that is not the host, with its page tables */
    uint64_t bytes_per_token; /* kv_bytes and index_bytes of one token slot, all layers */
    uint64_t pages;
} qsa_memory_plan;

/* Fills in the defaults. */
QSA_API void qsa_config_init(qsa_config *config);

/* The bytes that qsa_cache_create would allocate. Errors: QSA_E_ARGUMENT, QSA_E_LIMIT, naming the field. */
QSA_API qsa_status qsa_plan_memory(const qsa_config *config, qsa_memory_plan *out_plan);

QSA_END_DECLS
#endif
