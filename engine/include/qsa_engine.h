/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: loads a qwen4exp GGUF and continues token lists.
 *
 * A qsa_model is a file, mapped, with its tokenizer: read-only, shared. A qsa_context is one cache (libqsa's, and the
 * recurrent states beside it) with compute memory and threads; it runs batches of any mix of sequences. A qsa_session
 * is one token list in a context: the caller feeds tokens and samples. On one machine the text does not depend on the
 * chunk size, the thread count or what else is in the batch.
 *
 * Every function that can fail returns a qsa_status, leaves everything as it was, and says one line in
 * qsa_engine_error(). */
#ifndef QSA_ENGINE_H
#define QSA_ENGINE_H

#include <qsa/qsa.h>
#include <stdbool.h>

QSA_BEGIN_DECLS

/* Detail of the calling thread's last failed engine call; one line. */
const char *qsa_engine_error(void);

/* ---- the model ---- */

typedef struct qsa_model qsa_model;

typedef enum qsa_weights {
    QSA_WEIGHTS_NATIVE = 0, /* as in the file, mapped without copying */
    QSA_WEIGHTS_F32 = 1     /* dequantised at load: exact comparison, small models */
} qsa_weights;

typedef struct qsa_model_options {
    qsa_weights weights;
} qsa_model_options;

/* What QSA needs to know about a file. Strings belong to the model. */
typedef struct qsa_model_info {
    const char *name;         /* general.name, "" if none */
    const char *architecture; /* "qwen4exp" */
    const char *tokenizer;    /* tokenizer.ggml.pre */
    uint32_t layers;
    uint32_t embedding, context, vocabulary;
    qsa_config qsa; /* of its QSA layers: shape, rotary table and eps; all else at the defaults of qsa_config_init */
    uint32_t experts, experts_used, streams, ngram_layers;
    uint32_t shards;
    uint64_t file_bytes, tensor_count, parameter_count;
    uint64_t copied_bytes; /* weights that are in memory once more, dequantised or in another order */
    bool ratios_missing;   /* compress_ratios missing or all 0 although indexer tensors exist: taken as 4, other engines
                              run it dense */
    const char *main_type; /* type of most weight bytes, e.g. "q8_0" */
    int32_t eos;           /* token id, -1 if none */
} qsa_model_info;

/* Opens a file, or the first shard of a split one. Errors: QSA_E_IO (missing, a directory, unreadable), QSA_E_FORMAT
 * (not a GGUF, truncated, hostile, a missing or misshapen tensor or key, by name), QSA_E_UNSUPPORTED (another
 * architecture, tensor type or tokenizer, by name), QSA_E_MEMORY. options NULL: defaults. */
qsa_status qsa_model_open(const char *path, const qsa_model_options *options, qsa_model **out_model);
void qsa_model_close(qsa_model *model);
void qsa_model_get_info(const qsa_model *model, qsa_model_info *out_info);

/* Norm weights of QSA layer number qsa_layer (0 .. qsa_layers - 1), and which layer of the model that is. They belong
 * to the model. Errors: QSA_E_ARGUMENT. */
qsa_status qsa_model_get_norms(const qsa_model *model, uint32_t qsa_layer, uint32_t *out_layer,
                               qsa_norm_weights *out_norms);

/* Which special tokens are recognised in a text. One that is not the caller's own should have none: whoever wrote it
 * could end a turn or open another. */
typedef enum qsa_specials {
    QSA_SPECIALS_NONE = 0,
    QSA_SPECIALS_ALL,         /* types 3 (control) and 4 (user-defined) */
    QSA_SPECIALS_USER_DEFINED /* type 4 only: what the reference does with any text */
} qsa_specials;

/* Text to tokens. *out_tokens is the caller's to free(). */
qsa_status qsa_model_encode(const qsa_model *model, const char *text, size_t length, qsa_specials specials,
                            int32_t **out_tokens, size_t *out_n);
/* Bytes of one token (may cut a character); belongs to the model, not terminated. */
qsa_status qsa_model_token_bytes(const qsa_model *model, int32_t token, const char **out_bytes, size_t *out_length);

/* ---- a context ---- */

typedef struct qsa_context qsa_context;

typedef struct qsa_context_options {
    uint32_t context;     /* tokens of all sessions together, shared ones counted for each; 0: the model's */
    uint32_t sessions;    /* open at one time; default 1 */
    uint32_t chunk;       /* most tokens in one batch; default 512 */
    uint32_t threads;     /* 1 .. 1024; default 1 */
    qsa_kv_type kv;       /* default QSA_KV_BF16 */
    qsa_profile index;    /* default QSA_PROFILE_BF16 */
    uint32_t checkpoints; /* states that a session keeps to go back to, 0 .. 32; default 8 (qsa_session_want) */
    bool profile;         /* take the time of each part of the model (qsa_context_get_profile); default false */
    qsa_device *device;   /* where the QSA layers lie and run; it must outlive the context. Default NULL: the host */
} qsa_context_options;

void qsa_context_options_init(qsa_context_options *options);
qsa_status qsa_context_create(const qsa_model *model, const qsa_context_options *options, qsa_context **out_context);
void qsa_context_destroy(qsa_context *context);

typedef struct qsa_context_stats {
    qsa_counters counters; /* libqsa's */
    qsa_memory_plan plan;  /* libqsa's */
    /* Tokens that the queries saw, summed over queries and QSA layers: counters.k_rows_read / kv_heads is how many of
     * them entered attention. In the last layer only batches that give logits have queries. */
    uint64_t visible_tokens;
    uint64_t state_bytes;   /* recurrent states with checkpoints, shared ones once, and the token lists */
    uint64_t compute_bytes; /* graphs, their activations and scratch */
    uint64_t graphs_built;  /* a batch as long as one of the last few, with as many logits, needs no new one */
    const char *isa;
} qsa_context_stats;
void qsa_context_get_stats(const qsa_context *context, qsa_context_stats *out_stats);

/* What a forward pass consists of. */
typedef enum qsa_model_part {
    QSA_PART_EMBEDDING = 0,   /* rows of the embedding, into every stream */
    QSA_PART_NGRAM,           /* n-gram table and all that follows from its rows */
    QSA_PART_HYPER,           /* hyper-connections: norms, mixing, adding to the residual; the last mixer too */
    QSA_PART_DELTA,           /* delta nets with their projections */
    QSA_PART_EXPERTS,         /* router, experts, shared expert */
    QSA_PART_QSA_PROJECTIONS, /* of QSA layers: q, gate, k, v, index */
    QSA_PART_QSA_APPEND,      /* libqsa's phases */
    QSA_PART_QSA_SCAN,
    QSA_PART_QSA_SELECT,
    QSA_PART_QSA_ATTEND,
    QSA_PART_QSA_OUTPUT, /* gate and output projection */
    QSA_PART_HEAD,       /* logits */
    QSA_PART_OTHER,      /* checks, begin and commit of the step, building graphs, copies of logits and states */
    QSA_PART_COUNT
} qsa_model_part;

/* "n-gram table", "QSA scan", ...; "?" for a number that is none. Static storage. */
const char *qsa_model_part_name(qsa_model_part part);

/* Wall time of all calls of qsa_batch_run since the context was created, also those within qsa_session_feed and
 * qsa_session_want; the parts together are all of it. */
typedef struct qsa_context_profile {
    uint64_t batches, tokens; /* that were run */
    uint64_t part_ns[QSA_PART_COUNT];
} qsa_context_profile;
/* Zeros without options.profile. */
void qsa_context_get_profile(const qsa_context *context, qsa_context_profile *out_profile);

/* ---- sessions: one token list each ---- */

typedef struct qsa_session qsa_session;

qsa_status qsa_session_open(qsa_context *context, qsa_session **out_session);
void qsa_session_close(qsa_session *session);
uint64_t qsa_session_tokens(const qsa_session *session); /* that it holds */
/* Which: [qsa_session_tokens], the session's until its next call. */
const int32_t *qsa_session_list(const qsa_session *session);

/* Left padding: logical position of the first token; only before the first feed. */
qsa_status qsa_session_set_anchor(qsa_session *session, int64_t position);

/* One item of a batch: n new tokens of one session. Of its logits the last `logits` tokens' are computed (0 .. n). */
typedef struct qsa_batch_item {
    qsa_session *session;
    const int32_t *tokens;
    uint32_t n;
    uint32_t logits;
    float *out_logits; /* [logits][vocabulary] */
} qsa_batch_item;

/* One forward pass of all items, at most `chunk` tokens together; all or nothing. Errors: QSA_E_FULL, QSA_E_ARGUMENT
 * (a token that is not in the vocabulary, a session twice, an empty item), QSA_E_LIMIT (more than chunk),
 * QSA_E_NONFINITE (naming layer, entry, token and tensor). */
qsa_status qsa_batch_run(qsa_context *context, const qsa_batch_item *items, size_t n);

/* Feeds any number of tokens in chunks and returns the last one's logits [vocabulary] (NULL: none wanted). progress is
 * called after each chunk with the number of tokens fed; NULL: none. On an error all chunks before it stay fed. */
qsa_status qsa_session_feed(qsa_session *session, const int32_t *tokens, size_t n, float *out_logits,
                            void (*progress)(void *user, size_t fed), void *user);

/* For measurements only: makes the session `tokens` longer without running the model, so that a depth of hundreds of
 * thousands takes seconds. K, V and index get pseudo-random numbers of the size of projections, through the same steps
 * and commits as real ones; the recurrent states small ones; the list valid ids. The same seed, length and chunk size
 * give the same state. What the session says from there on has no meaning, and takes the time that a session of this
 * length takes. Errors, with nothing changed: QSA_E_ARGUMENT (no session, 0 tokens), QSA_E_FULL, QSA_E_MEMORY,
 * QSA_E_LIMIT (positions), QSA_E_IO (threads). */
qsa_status qsa_session_fill(qsa_session *session, uint64_t tokens, uint64_t seed);

/* What of a wanted list was there already. */
typedef struct qsa_reuse {
    uint64_t common;   /* tokens of the list that a session stored */
    uint64_t reused;   /* of them, not computed again; any number, not rounded */
    uint64_t computed; /* the rest of the list */
    bool forked;       /* they were another session's, which goes on unchanged */
} qsa_reuse;

/* Makes the session hold exactly these tokens, and returns the last one's logits [vocabulary] (NULL: none wanted). It
 * keeps what it holds of them, goes back where the lists part, or forks another session of the context with the same
 * anchor that spares more work; the rest is fed. What K, V and index of the common tokens are worth depends on the
 * recurrent states: copies are kept at the end of every feed of more than one token and every 512 tokens at least, up
 * to options.checkpoints (each a recurrent state and one token's logits), thinned so that their gaps grow with the
 * distance from the end; what lies between such a place and the end of the common tokens is computed again. The result
 * is that of a fresh session, bit for bit.
 *
 * n = 0 makes it empty. out_reuse NULL: not wanted. progress is called after each chunk with the number of tokens that
 * are there. Errors: as qsa_session_feed; what is known beforehand (QSA_E_ARGUMENT, QSA_E_FULL) changes nothing, later
 * ones leave the chunks that were done. */
qsa_status qsa_session_want(qsa_session *session, const int32_t *tokens, size_t n, float *out_logits,
                            qsa_reuse *out_reuse, void (*progress)(void *user, size_t there), void *user);

/* A checkpoint at the present end that stays whatever happens after it. One per session; marking again replaces it,
 * going back behind it ends it. Return goes there at once. */
qsa_status qsa_session_mark(qsa_session *session);
qsa_status qsa_session_return(qsa_session *session); /* QSA_E_ORDER: no mark */

/* Taps for verification: called for every QSA layer of every batch after it was computed. selection: groups of each
 * token of the batch. Tensors as in step.h, [tokens][heads][dim]. NULL takes the tap out. */
typedef struct qsa_tap {
    void (*layer)(void *user, uint32_t model_layer, uint32_t tokens, const qsa_tensors *tensors,
                  const qsa_output *output, const qsa_step *step);
    void *user;
} qsa_tap;
void qsa_context_set_tap(qsa_context *context, const qsa_tap *tap);

/* ---- sampling ---- */

typedef struct qsa_sampler qsa_sampler;

typedef struct qsa_sampler_options {
    float temperature; /* 0: greedy, ties to the lowest id; default 0 */
    uint32_t top_k;    /* 0: all; default 0 */
    float top_p;       /* (0, 1]; default 1 */
    float min_p;       /* [0, 1]; default 0 */
    uint64_t seed;     /* default 0 */
} qsa_sampler_options;

void qsa_sampler_options_init(qsa_sampler_options *options);
qsa_status qsa_sampler_create(const qsa_sampler_options *options, uint32_t vocabulary, qsa_sampler **out_sampler);
void qsa_sampler_destroy(qsa_sampler *sampler);
qsa_status qsa_sampler_next(qsa_sampler *sampler, const float *logits, int32_t *out_token);

/* ---- state that survives ---- */

/* A session as a snapshot file: libqsa's parts, the token ids, the recurrent states with the session's checkpoints, and
 * the sampler's random numbers (NULL: none). At any moment path is the old file or the new one, whole. The model is
 * named by a fingerprint: XXH3 of its metadata, its tensor directory and samples of every tensor (all of one up to 16
 * KiB, of larger ones four times 4 KiB), and how the weights were loaded. Errors: QSA_E_IO, QSA_E_MEMORY. */
qsa_status qsa_session_save(const qsa_session *session, const qsa_sampler *sampler, const char *path);

/* Opens a session as it was saved: it goes on as if it had never been away, bit for bit, also with other threads and
 * chunks; qsa_session_want reuses all that was stored. The sampler (NULL: none) takes over the random numbers if the
 * file has some; its options stay. Bytes are taken for hostile. Errors, with nothing changed: QSA_E_IO; QSA_E_FORMAT
 * (naming the part); QSA_E_UNSUPPORTED (another model, shape, type of K and V or index profile, version: both values);
 * QSA_E_FULL; QSA_E_MEMORY. */
qsa_status qsa_session_load(qsa_context *context, const char *path, qsa_sampler *sampler, qsa_session **out_session);

/* ---- the demo checkpoint: the quoter ---- */

/* Path of the embedded default model; made on first use in the cache folder (XDG_CACHE_HOME, else ~/.cache, /qsa).
 * *out_path is the caller's to free(). announce is called before it is made; NULL: silent. */
qsa_status qsa_demo_model(void (*announce)(void *user, const char *path), void *user, char **out_path);

/* A ledger of exactly `tokens` tokens of the demo model, and questions about it. */
typedef struct qsa_question {
    char question[64]; /* "The access code of vault 0423 is" */
    char expected[32]; /* " 77120493." */
} qsa_question;
/* *out_text is the caller's to free(). questions [n]. Errors: QSA_E_ARGUMENT (more questions than lines). */
qsa_status qsa_demo_ledger(uint64_t seed, size_t tokens, char **out_text, qsa_question *questions, size_t n);

/* ---- a checkpoint of released widths ---- */

typedef enum qsa_random_type {
    QSA_RANDOM_Q8_0 = 0,
    QSA_RANDOM_Q4_0,
    QSA_RANDOM_BF16,
    QSA_RANDOM_F16,
    QSA_RANDOM_F32,
    QSA_RANDOM_TYPE_COUNT
} qsa_random_type;

/* A model of every width of Qwen3.8-Flash-Next with random weights: loading, memory and speed are those of the real
 * shape, what it says means nothing. Its numbers stay of ordinary size in any number of layers. */
typedef struct qsa_random_model {
    uint32_t layers;      /* 4 .. 1,024, every fourth a QSA layer; default 4 */
    uint32_t experts;     /* 10 .. 4,096 in each layer, of which a token takes ten; default 16 */
    uint32_t vocabulary;  /* 1,024 .. 248,320; the n-gram table has 16 times as many rows; default 8,192 */
    qsa_random_type type; /* of the large matrices; default QSA_RANDOM_Q8_0 */
    uint64_t seed;        /* default 1 */
} qsa_random_model;

void qsa_random_model_init(qsa_random_model *options);

/* Writes it as one GGUF file: the same bytes for the same options (q4_0 excepted, which ggml may round otherwise when
 * it is built for another processor). Takes a few megabytes of memory whatever the size. The file appears under its
 * name when it is complete, and replaces what had it. go_on is called every megabyte or so with the bytes written and
 * those of the whole file; false ends the work and leaves nothing. NULL: never asked. Errors: QSA_E_ARGUMENT (an
 * option, by name), QSA_E_MEMORY, QSA_E_IO (also where the disk has too little room, which is found before anything is
 * written, and after go_on said no). */
qsa_status qsa_random_model_write(const char *path, const qsa_random_model *options,
                                  bool (*go_on)(void *user, uint64_t written, uint64_t bytes), void *user);

QSA_END_DECLS
#endif
