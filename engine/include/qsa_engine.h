/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: loads a qwen4exp GGUF file and continues lists of tokens.
 *
 * A qsa_model is a mapped file with its tokenizer, read-only and shared. A qsa_context has one KV cache (libqsa's, with
 * the recurrent states beside it), compute memory and threads; it runs batches of any mix of sessions. A qsa_session is
 * one list of tokens in a context: feed it tokens, get logits, sample. The logits depend neither on the processor,
 * nor on the chunk size, nor on the number of threads, nor on what else is in the batch.
 *
 * Rules for every function below:
 *   - One that can fail returns a qsa_status. On failure nothing has changed, out-parameters included, unless the
 *     function says otherwise; qsa_engine_error() says in one line what was wrong. Errors that are not listed:
 *     QSA_E_ARGUMENT for NULL where it is not allowed, QSA_E_MEMORY.
 *   - Option structs begin with size_bytes, which their _init sets; a struct that was not initialised, or comes from
 *     another version of this header, is QSA_E_ARGUMENT. NULL options: the defaults.
 *   - A model may be used by any number of threads at one time. A context, with its sessions, by one at a time.
 *   - _close, _destroy and free() take NULL.
 *   - The first call that opens a file silences ggml's log (ggml_log_set). */
#ifndef QSA_ENGINE_H
#define QSA_ENGINE_H

#include <qsa/qsa.h>
#include <stdbool.h>

QSA_BEGIN_DECLS

/* What was wrong in the calling thread's last failed call; one line, "" if none has failed. Valid until the thread's
 * next call. */
const char *qsa_engine_error(void);

/* ---- memory ---- */

#define QSA_NO_LIMIT UINT64_MAX

/* Bytes that this process can still take. Pages of files that the kernel can drop count as free. */
typedef struct qsa_available_memory {
    uint64_t machine_bytes; /* MemAvailable of /proc/meminfo */
    uint64_t cgroup_bytes; /* the least that its memory cgroup and the cgroups above it leave; QSA_NO_LIMIT: no limit */
    uint64_t address_bytes; /* address space that RLIMIT_AS (ulimit -v) leaves; QSA_NO_LIMIT: no limit */
} qsa_available_memory;
void qsa_get_available_memory(qsa_available_memory *out_available);

/* What a weight belongs to. */
typedef enum qsa_weight_kind {
    QSA_WEIGHT_EXPERTS = 0, /* with router and shared expert */
    QSA_WEIGHT_DELTA,
    QSA_WEIGHT_ATTENTION,
    QSA_WEIGHT_HYPER,
    QSA_WEIGHT_NGRAM, /* projections of the n-gram embedding */
    QSA_WEIGHT_HEAD,  /* a tied embedding, too */
    /* Those above are resident: any token may read any page. Of the next two a token reads a few rows. */
    QSA_WEIGHT_EMBEDDING,
    QSA_WEIGHT_TABLE,  /* of the n-gram embedding */
    QSA_WEIGHT_UNUSED, /* tensors that nothing reads */
    QSA_WEIGHT_KIND_COUNT
} qsa_weight_kind;

/* "experts", "n-gram table", ...; "?" for a number that is none. Static storage. */
const char *qsa_weight_kind_name(qsa_weight_kind kind);

typedef enum qsa_fit {
    QSA_FIT_MEMORY = 0, /* everything resident fits */
    QSA_FIT_DISK,       /* the context fits, but not all resident weights beside it: some are read from the disk again
                           and again */
    QSA_FIT_NOT         /* qsa_context_create would run out of memory */
} qsa_fit;

/* What a context of a model takes, and whether that fits here now. All in bytes, if not said otherwise. */
typedef struct qsa_plan {
    uint64_t weight_bytes[QSA_WEIGHT_KIND_COUNT]; /* used in place, as they are in the file */
    uint64_t copied_bytes;                        /* weights that the open model has dequantised or reordered */
    uint64_t taken_bytes;                         /* of weight_bytes: loaded or locked when the model was opened */
    qsa_memory_plan cache;                        /* libqsa's */
    uint64_t state_bytes;      /* recurrent states with checkpoints, and lists of tokens, of all sessions, at most */
    uint64_t activation_bytes; /* of a chunk, and the logits of a token per session */

    uint64_t context_bytes;  /* cache, states and activations: what qsa_context_create and its sessions take */
    uint64_t resident_bytes; /* context_bytes, copied_bytes and the resident weights */
    uint64_t rare_bytes;     /* embedding and n-gram table: mapped, read a few rows per token */

    uint32_t context, sessions; /* of the options, with defaults filled in: tokens, count */
    uint64_t session_bytes;     /* of one session without its tokens: recurrent states with checkpoints, at most */
    uint64_t token_bytes;       /* of one token of one session: cache and list */

    qsa_available_memory available; /* when the plan was made */
    qsa_fit fit;
    uint32_t
        largest_context; /* tokens: the largest context that fits as QSA_FIT_MEMORY, at most the model's; 0: none */
} qsa_plan;

/* ---- the model ---- */

typedef struct qsa_model qsa_model;

typedef enum qsa_weight_storage {
    QSA_WEIGHTS_NATIVE = 0, /* used in place, in the types of the file */
    QSA_WEIGHTS_F32 = 1     /* dequantised at load: for exact comparison of small models */
} qsa_weight_storage;

/* Where the resident weights are (qsa_weight_kind). Embedding and n-gram table are always mapped. */
typedef enum qsa_residency {
    QSA_RESIDENCY_MAPPED = 0, /* in the page cache, shared by all processes; the kernel may drop and read them again */
    QSA_RESIDENCY_LOCKED,     /* the same, locked: never dropped */
    QSA_RESIDENCY_LOADED      /* read into this process's memory, in huge pages */
} qsa_residency;

typedef struct qsa_model_options {
    size_t size_bytes;          /* sizeof(qsa_model_options), set by qsa_model_options_init */
    qsa_weight_storage weights; /* default QSA_WEIGHTS_NATIVE, which is 0 */
    qsa_residency residency;    /* default QSA_RESIDENCY_MAPPED, which is 0; of weights used in place */
} qsa_model_options;

void qsa_model_options_init(qsa_model_options *options);

/* What a file says about itself. Strings belong to the model. */
typedef struct qsa_model_info {
    const char *name;         /* general.name, "" if none */
    const char *architecture; /* "qwen4exp" */
    const char *tokenizer;    /* tokenizer.ggml.pre */
    uint32_t layers;
    uint32_t draft_layers;                   /* blocks behind them that draft tokens (MTP): left out */
    uint32_t embedding, context, vocabulary; /* width of the residual, tokens, tokens */
    qsa_config qsa; /* of its QSA layers: shape, rotary table and eps; the rest as qsa_config_init sets it */
    uint32_t experts, experts_used, streams, ngram_layers;
    uint32_t shards; /* files */
    uint64_t file_bytes, tensor_count, parameter_count;
    uint64_t copied_bytes; /* weights that are in memory a second time: dequantised or repacked */
    bool ratios_missing;   /* compress_ratios is missing or all 0 although there are indexer tensors: taken as 4, where
                              other engines run the file dense */
    const char *main_type; /* type of most weight bytes, e.g. "q8_0" */
    int32_t eos;           /* token id, -1 if none */
    const int32_t *ends;   /* [end_count], ascending: all tokens that end a text: those that the file names (eos, eot,
                              eom, fim) and special tokens with known texts, "<|im_end|>" for example */
    size_t end_count;
    uint32_t tokens;       /* with a text: ids from here to the vocabulary are padding, never sampled or encoded */
    bool add_bos, add_eos; /* qsa_model_encode_text adds bos, eos */

} qsa_model_info;

/* Opens a file, or the first shard of a split one; the others are found beside it. Errors: QSA_E_IO (missing, a
 * directory, unreadable), QSA_E_FORMAT (not a GGUF, truncated, a missing or misshapen tensor or key, which is named),
 * QSA_E_LIMIT (a header beyond all reason), QSA_E_MEMORY (also: weights that cannot be loaded or locked),
 * QSA_E_UNSUPPORTED (another architecture, tensor type or tokenizer, which is named). */
qsa_status qsa_model_open(const char *path, const qsa_model_options *options, qsa_model **out_model);
/* Call after destroying its contexts. NULL is legal. */
void qsa_model_close(qsa_model *model);

void qsa_model_get_info(const qsa_model *model, qsa_model_info *out_info);

/* The path of the model's file whose mapping holds the address, NULL if none does. A mapped file that another process
 * cuts short raises SIGBUS where it is read; the library installs no handler. A host's handler may call this, which is
 * async-signal-safe, to tell such a signal from others; the handler must not return. */
const char *qsa_model_file_at(const qsa_model *model, const void *address);

/* A tensor or a key of the file that the engine does not read, and why that changes no result. */
typedef struct qsa_left_out {
    const char *name, *reason;
    bool is_tensor; /* false: a key */
    uint64_t bytes; /* of a tensor */
} qsa_left_out;

/* All of them, tensors first: [*out_n]. They belong to the model. A file with any other tensor or key that the engine
 * does not read is refused by its name. */
const qsa_left_out *qsa_model_left_out(const qsa_model *model, size_t *out_n);

/* Norm weights of QSA layer number qsa_layer (0 .. info.qsa.layers - 1), and which layer of the model that is. They
 * belong to the model. Errors: QSA_E_ARGUMENT. */
qsa_status qsa_model_get_norms(const qsa_model *model, uint32_t qsa_layer, uint32_t *out_layer,
                               qsa_norm_weights *out_norms);

/* Which special tokens are recognised in a text. In text from others recognise none: whoever wrote it could end a turn
 * or open another. */
typedef enum qsa_specials {
    QSA_SPECIALS_NONE = 0,
    QSA_SPECIALS_ALL,         /* types 3 (control) and 4 (user-defined) */
    QSA_SPECIALS_USER_DEFINED /* type 4 only: what the reference does with any text */
} qsa_specials;

/* Text [length bytes] to tokens [*out_n]. Bytes that are not UTF-8 are taken, too. *out_tokens is the caller's to
 * free(). Errors: QSA_E_LIMIT (a text beyond 1 GiB). */
qsa_status qsa_model_encode(const qsa_model *model, const char *text, size_t length, qsa_specials specials,
                            int32_t **out_tokens, size_t *out_n);

/* A whole text: qsa_model_encode, between the tokens that the file says a text begins and ends with, if it does. */
qsa_status qsa_model_encode_text(const qsa_model *model, const char *text, size_t length, qsa_specials specials,
                                 int32_t **out_tokens, size_t *out_n);

/* Whether it ends a text (info.ends); whether it is a control token, which is markup and not text. False for an id that
 * is no token. */
bool qsa_model_is_end(const qsa_model *model, int32_t token);
bool qsa_model_is_control(const qsa_model *model, int32_t token);

/* The bytes of one token, which may be part of a character. Not terminated; they belong to the model. Errors:
 * QSA_E_ARGUMENT (not in the vocabulary). */
qsa_status qsa_model_token_bytes(const qsa_model *model, int32_t token, const char **out_bytes, size_t *out_length);

/* ---- a context ---- */

typedef struct qsa_context qsa_context;

typedef struct qsa_context_options {
    size_t size_bytes;    /* sizeof(qsa_context_options), set by qsa_context_options_init */
    uint32_t context;     /* tokens of all sessions together, shared ones counted for each; default 0: as many as the
                             model was made for */
    uint32_t sessions;    /* that can be open at one time, from 1; default 1 */
    uint32_t chunk;       /* tokens in one batch at most, 1 .. 65,536; default 0: chosen for the model, 512 to
                             2,048 */
    uint32_t threads;     /* 1 .. 1,024; default 1. No more are started than there are processors (but up to four) */
    qsa_kv_type kv;       /* default QSA_KV_BF16 */
    qsa_profile index;    /* default QSA_PROFILE_BF16 */
    uint32_t checkpoints; /* recurrent states that each session keeps to go back to (qsa_session_want), 0 .. 32; default
                             8; 0: none */
    float yarn_factor; /* YaRN with the file's context (with YaRN: its original one) as the original length, 1 .. 1,024;
                          the context then may be as many times as long. Default 0: as the file says */
    bool profile;      /* measure the time of each part of the model (qsa_context_get_profile); default false */
    qsa_device *device; /* where the QSA layers run; must outlive the context. Default NULL: the host */
} qsa_context_options;

void qsa_context_options_init(qsa_context_options *options);

/* What a context with these options will take, without taking it; the cost is a few microseconds. NULL options: the
 * defaults. A server plans a context of n sessions, and counts a session of n tokens as qsa_plan_session_bytes. Errors:
 * QSA_E_LIMIT (an option, by name; a context beyond what yarn_factor reaches), those of qsa_plan_memory. */
qsa_status qsa_context_plan(const qsa_model *model, const qsa_context_options *options, qsa_plan *out_plan);

/* Of the plan's bytes, those of one session that holds that many tokens: whole pages of the cache, states, list. */
uint64_t qsa_plan_session_bytes(const qsa_plan *plan, uint64_t tokens);

/* Takes all memory that batches will need; the model must outlive the context. Errors: QSA_E_MEMORY (the context needs
 * more than this process can take, with both numbers and the largest context that fits), QSA_E_LIMIT (an option, by
 * name), QSA_E_IO (threads that cannot be started), those of qsa_cache_create. */
qsa_status qsa_context_create(const qsa_model *model, const qsa_context_options *options, qsa_context **out_context);
/* Closes its sessions as well. NULL is legal. Inside one of its callbacks it does nothing. */
void qsa_context_destroy(qsa_context *context);

typedef struct qsa_context_stats {
    qsa_counters counters;   /* libqsa's */
    qsa_memory_plan plan;    /* libqsa's */
    uint64_t visible_tokens; /* visible to the queries, summed over queries and QSA layers: of them counters.k_rows_read
                                / kv_heads were attended to. In the last layer only batches with logits have queries */
    uint64_t state_bytes;    /* recurrent states, checkpoints (shared ones once) and lists of tokens */
    uint64_t compute_bytes;  /* activations of a chunk, and logits */
    uint32_t chunk;          /* options.chunk, or what 0 stood for */
    uint32_t threads;        /* that were started: at most options.threads */
    const char *isa;         /* of libqsa's kernels; static storage */
} qsa_context_stats;
void qsa_context_get_stats(const qsa_context *context, qsa_context_stats *out_stats);

/* What a forward pass consists of. */
typedef enum qsa_model_part {
    QSA_PART_EMBEDDING = 0,   /* rows of the embedding, into every stream */
    QSA_PART_NGRAM,           /* n-gram table and all that follows from its rows */
    QSA_PART_HYPER,           /* hyper-connections: norms, mixing, adding to the residual; the final mixer, too */
    QSA_PART_DELTA,           /* delta nets with their projections */
    QSA_PART_EXPERTS,         /* router, experts, shared expert */
    QSA_PART_QSA_PROJECTIONS, /* of QSA layers: q, gate, k, v, index */
    QSA_PART_QSA_APPEND,      /* libqsa's phases */
    QSA_PART_QSA_SCAN,
    QSA_PART_QSA_SELECT,
    QSA_PART_QSA_ATTEND,
    QSA_PART_QSA_OUTPUT, /* gate and output projection */
    QSA_PART_HEAD,       /* logits */
    QSA_PART_OTHER,      /* checks, begin and commit of the step, copies of logits and states */
    QSA_PART_COUNT
} qsa_model_part;

/* "n-gram table", "QSA scan", ...; "?" for a number that is none. Static storage. */
const char *qsa_model_part_name(qsa_model_part part);

/* Wall time of all calls of qsa_batch_run since the context was created, those inside qsa_session_feed and
 * qsa_session_want included. The parts add up to all of it. */
typedef struct qsa_context_profile {
    uint64_t batches, tokens;
    uint64_t part_ns[QSA_PART_COUNT];
} qsa_context_profile;
/* Zeros without options.profile. */
void qsa_context_get_profile(const qsa_context *context, qsa_context_profile *out_profile);

/* ---- sessions: one list of tokens each ---- */

typedef struct qsa_session qsa_session;

/* An empty one. Errors: QSA_E_FULL (options.sessions are open). */
qsa_status qsa_session_open(qsa_context *context, qsa_session **out_session);
void qsa_session_close(qsa_session *session);

uint64_t qsa_session_tokens(const qsa_session *session); /* that it holds */
/* Which: [qsa_session_tokens]. They belong to the session and are valid until the next call that changes it. */
const int32_t *qsa_session_list(const qsa_session *session);

/* Left padding: the logical position of the first token, 0 if not set. Errors: QSA_E_ORDER (after the first feed),
 * QSA_E_LIMIT (not a position). */
qsa_status qsa_session_set_anchor(qsa_session *session, int64_t position);

/* One item of a batch: n new tokens of one session, and the logits of the last `logits` of them. */
typedef struct qsa_batch_item {
    qsa_session *session;
    const int32_t *tokens; /* [n] */
    uint32_t n;            /* from 1 */
    uint32_t logits;       /* 0 .. n */
    float *out_logits;     /* [logits][vocabulary]; NULL if logits is 0 */
} qsa_batch_item;

/* One forward pass of n items, options.chunk tokens together at most. Errors: QSA_E_ARGUMENT (a token that is not in
 * the vocabulary, a session twice, an empty item), QSA_E_LIMIT (more than chunk tokens), QSA_E_FULL, QSA_E_NONFINITE
 * (naming layer, entry, token and tensor), QSA_E_DEVICE. */
qsa_status qsa_batch_run(qsa_context *context, const qsa_batch_item *items, size_t n);

/* Asked after every chunk, on the calling thread, with the number of tokens that are there: whether to go on. Inside
 * it, and inside a tap, every function of the context and its sessions that returns a status is QSA_E_BUSY, and
 * destroying or closing them does nothing; what only tells (qsa_session_tokens, _list, qsa_context_get_stats) may be
 * called. */
typedef bool (*qsa_progress)(void *user, size_t tokens);

/* Appends n tokens, chunk by chunk, and returns the logits [vocabulary] of the last one (out_logits NULL: none are
 * computed). progress, unless NULL, is told how many of the n were fed.
 *
 * progress returns false: QSA_E_CANCELLED. The session then is as if only the chunks that were done had been fed, and
 * can be fed the rest; out_logits is untouched. After the last chunk the answer does not matter.
 * Other errors: as qsa_batch_run; the chunks before the one that failed stay fed. */
qsa_status qsa_session_feed(qsa_session *session, const int32_t *tokens, size_t n, float *out_logits,
                            qsa_progress progress, void *user);

/* What of a wanted list was there already. */
typedef struct qsa_reuse {
    uint64_t common;   /* tokens of the list, from its beginning, that a session stored */
    uint64_t reused;   /* of them, not computed again; any number, not rounded */
    uint64_t computed; /* the rest of the list */
    bool forked;       /* they were another session's, which goes on unchanged */
} qsa_reuse;

/* Makes the session hold exactly these n tokens (0: none), and returns the logits [vocabulary] of the last one
 * (out_logits NULL: none). What is stored already is reused: the session keeps the common prefix, or forks another
 * session of the context with the same anchor that spares more work; the rest is fed. The result is that of a new
 * session, bit for bit.
 *
 * K, V and index of the common prefix are always there; recurrent states only at checkpoints, so what lies between the
 * last checkpoint and the end of the prefix is computed again. A checkpoint (a recurrent state and the logits of one
 * token) is made at the end of every feed of more than one token, and after 512 tokens at the latest; up to
 * options.checkpoints of them are kept, with gaps that grow with the distance from the end.
 *
 * out_reuse NULL: not wanted. progress, unless NULL, is told how many of the n are there; false: QSA_E_CANCELLED, the
 * session then holds the first tokens of the list, as many as progress was told. Errors: as qsa_session_feed. Those
 * known beforehand (QSA_E_ARGUMENT, QSA_E_FULL) change nothing; later ones leave the chunks that were done. */
qsa_status qsa_session_want(qsa_session *session, const int32_t *tokens, size_t n, float *out_logits,
                            qsa_reuse *out_reuse, qsa_progress progress, void *user);

/* Marks the present end: a checkpoint that is kept until the session goes back behind it, or marks another. */
qsa_status qsa_session_mark(qsa_session *session);
/* Goes back to the mark at once. Errors: QSA_E_ORDER (no mark). */
qsa_status qsa_session_return(qsa_session *session);

/* For measurements: makes the session `tokens` longer without running the model, so that a depth of hundreds of
 * thousands takes seconds. K, V and index get pseudo-random numbers of the size of projections, through real steps; the
 * recurrent states small ones; the list valid ids. The same seed, length and chunk size give the same state. What the
 * model says from there on has no meaning, and takes the time that a session of this length takes. Errors:
 * QSA_E_ARGUMENT (0 tokens), QSA_E_FULL, QSA_E_LIMIT (positions), QSA_E_IO (threads). */
qsa_status qsa_session_fill(qsa_session *session, uint64_t tokens, uint64_t seed);

/* For verification: called for every QSA layer of every batch, after the layer was computed. selection: the selected
 * groups of each token of the batch. Tensors as in qsa/step.h, [tokens][heads][dim], valid during the call. */
typedef struct qsa_tap {
    void (*layer)(void *user, uint32_t model_layer, uint32_t tokens, const qsa_tensors *tensors,
                  const qsa_output *output, const qsa_step *step);
    void *user;
} qsa_tap;
/* Copies the tap. NULL: none any more. Legal inside a tap, for the layers that follow. */
void qsa_context_set_tap(qsa_context *context, const qsa_tap *tap);

/* ---- sampling ---- */

typedef struct qsa_sampler qsa_sampler;

/* Added to the logit of a token; -INFINITY: the token never comes. */
typedef struct qsa_logit_bias {
    int32_t token;
    float bias;
} qsa_logit_bias;

/* First biases are added, then penalties applied: a token that occurs n > 0 times among the last penalty_tokens of the
 * text (qsa_sampler_accept) has its logit divided by repeat_penalty if it is above 0, else multiplied by it, and then
 * lowered by presence_penalty + n * frequency_penalty. Then tokens are ordered by descending logit, equal ones by
 * ascending id; top_k, top_p and min_p, in this order, each keep a beginning of what is left. */
typedef struct qsa_sampler_options {
    size_t size_bytes; /* sizeof(qsa_sampler_options), set by qsa_sampler_options_init */
    float temperature; /* 0 .. 1,000; default 0: greedy, the first token of the order */
    uint32_t top_k;    /* how many tokens; default 0: all */
    float top_p;   /* the fewest tokens with this much of the probability, above 0 .. 1; default 1: all. 0 is refused */
    float min_p;   /* tokens with at least this fraction of the first one's probability, 0 .. 1; default 0: all */
    uint64_t seed; /* of the random numbers; default 0, a seed like any other */
    float repeat_penalty;                      /* above 0 .. 100; default 1: none */
    float presence_penalty, frequency_penalty; /* -100 .. 100; default 0: none */
    uint32_t penalty_tokens;                   /* default 64; at most 2^24 */
    const qsa_logit_bias *biases;              /* [bias_count], copied; of several for a token the sum counts */
    size_t bias_count;
} qsa_sampler_options;

void qsa_sampler_options_init(qsa_sampler_options *options);

/* The defaults, with what the model's file recommends in their place (general.sampling.temp, .top_k, .top_p, .min_p,
 * .penalty_repeat, .penalty_last_n). Returns whether it recommends anything. */
bool qsa_model_get_sampling(const qsa_model *model, qsa_sampler_options *out_options);

/* vocabulary: info.tokens of the model; ids from there on have no text and are never drawn. Errors: QSA_E_ARGUMENT (an
 * option out of its range, by name), QSA_E_MEMORY. */
qsa_status qsa_sampler_create(const qsa_sampler_options *options, uint32_t vocabulary, qsa_sampler **out_sampler);
void qsa_sampler_destroy(qsa_sampler *sampler);

/* Tokens [n] that the text goes on with, for the penalties. What qsa_sampler_next returns is taken already. Tokens
 * outside the vocabulary do not count. */
void qsa_sampler_accept(qsa_sampler *sampler, const int32_t *tokens, size_t n);

/* The next token, given logits [vocabulary]. Draws one random number unless greedy. Errors: QSA_E_NONFINITE (a
 * logit, which is named), QSA_E_ARGUMENT (the biases leave no token); nothing is drawn. */
qsa_status qsa_sampler_next(qsa_sampler *sampler, const float *logits, int32_t *out_token);

/* ---- stop strings ---- */

/* Finds strings that end a text among the bytes that tokens stand for, wherever the tokens are cut. */
typedef struct qsa_stops qsa_stops;

/* strings [n], none empty, are copied. Errors: QSA_E_ARGUMENT (an empty string). */
qsa_status qsa_stops_create(const char *const *strings, size_t n, qsa_stops **out_stops);
void qsa_stops_destroy(qsa_stops *stops);

/* Takes the bytes [n] of the next token. *out_text [*out_n] is what can be shown now: it belongs to no stop string and
 * cannot be the beginning of one; valid until the next call. The stop string whose last byte comes first counts, of
 * several the longest; it and all that follows is dropped. Errors: QSA_E_MEMORY (nothing was taken). */
qsa_status qsa_stops_take(qsa_stops *stops, const char *bytes, size_t n, const char **out_text, size_t *out_n);

/* Whether a stop string was found, and which; out_index may be NULL. */
bool qsa_stops_found(const qsa_stops *stops, size_t *out_index);

/* What is held back, because a stop string may begin with it: to be shown if the text ends here for another reason. */
void qsa_stops_held(const qsa_stops *stops, const char **out_text, size_t *out_n);

/* ---- sessions as files ---- */

/* Writes a session as a snapshot file: libqsa's sections, the token ids, the recurrent states with the session's
 * checkpoints, and the state of the sampler's random numbers (sampler NULL: none). The file appears under its name when
 * it is whole, in place of an old one; killed at any moment, the old file is as it was. The model is named by the
 * XXH3 of every byte of its files, and by how the weights were loaded. The first save or load of a model file reads all
 * of it; its digest is then kept in the cache folder ($XDG_CACHE_HOME/qsa, else ~/.cache/qsa), where an edited file is
 * not mistaken for it. Errors: QSA_E_IO. */
qsa_status qsa_session_save(const qsa_session *session, const qsa_sampler *sampler, const char *path);

/* Opens a session as it was saved. It continues bit for bit as if it had never been away, with other threads and chunk
 * sizes, too, and qsa_session_want reuses all that was stored. sampler, unless NULL, takes over the random numbers if
 * the file has some; its options stay. The bytes are not trusted. Errors: QSA_E_IO, QSA_E_FORMAT (naming the part),
 * QSA_E_UNSUPPORTED (another model, shape, type of K and V, index profile or version: both values), QSA_E_FULL. */
qsa_status qsa_session_load(qsa_context *context, const char *path, qsa_sampler *sampler, qsa_session **out_session);

/* ---- the demo checkpoint: the quoter ---- */

/* The path of the embedded default model, which is made on first use in the cache folder ($XDG_CACHE_HOME/qsa, else
 * ~/.cache/qsa). *out_path is the caller's to free(). announce, unless NULL, is called before it is made, and may call
 * anything. Errors:
 * QSA_E_IO. */
qsa_status qsa_demo_model(void (*announce)(void *user, const char *path), void *user, char **out_path);

/* A question about a ledger, and the answer that the demo model gives. */
typedef struct qsa_question {
    char question[64]; /* "The access code of vault 0423 is" */
    char expected[32]; /* " 77120493." */
} qsa_question;

/* A ledger of exactly `tokens` tokens of the demo model, and questions [n] about it; the same seed gives the same.
 * *out_text is the caller's to free(). Errors: QSA_E_ARGUMENT (more questions than lines; a length that no ledger
 * has). */
qsa_status qsa_demo_ledger(uint64_t seed, size_t tokens, char **out_text, qsa_question *questions, size_t n);

/* ---- a checkpoint of released widths ---- */

typedef enum qsa_random_type {
    QSA_RANDOM_Q8_0 = 0,
    QSA_RANDOM_Q4_0,
    QSA_RANDOM_BF16,
    QSA_RANDOM_F16,
    QSA_RANDOM_F32,
    QSA_RANDOM_Q3_K_M, /* from here on a mixture, as published files have it */
    QSA_RANDOM_Q4_K_M,
    QSA_RANDOM_Q5_K_M,
    QSA_RANDOM_Q6_K,
    QSA_RANDOM_IQ4_XS,
    QSA_RANDOM_TYPE_COUNT
} qsa_random_type;

/* "q4_k_m"; NULL for a number that is none. */
const char *qsa_random_type_name(qsa_random_type type);

/* A model with every width of Qwen3.8-Flash-Next and random weights: loading, memory and speed are those of the real
 * shape; what it says means nothing. Activations stay of ordinary size in any number of layers. */
typedef struct qsa_random_model {
    size_t size_bytes;    /* sizeof(qsa_random_model), set by qsa_random_model_init */
    uint32_t layers;      /* 4 .. 1,024, every fourth a QSA layer; default 4 */
    uint32_t experts;     /* of each layer, 10 .. 4,096; a token uses ten; default 16 */
    uint32_t vocabulary;  /* tokens, 1,024 .. 248,320; default 8,192 */
    uint32_t ngram_rows;  /* of the n-gram table, about; 1,024 .. 2e9; default 0: 16 times the vocabulary */
    uint32_t shards;      /* files, 1 .. 99; default 1 */
    qsa_random_type type; /* of the large matrices, or a mixture; default QSA_RANDOM_Q8_0, which is 0 */
    uint64_t seed;        /* default 1; 0 is a seed like any other */
} qsa_random_model;

void qsa_random_model_init(qsa_random_model *options);

/* Writes it: the same bytes for the same options (q4_0 excepted, which ggml rounds differently on different
 * processors). Tensors of types that take long to quantise are random picks from 65,536 quantised weights each. Takes a
 * few megabytes of memory, whatever the size.
 *
 * shards above 1: files NAME-00001-of-0000N.gguf, for path NAME.gguf, as llama.cpp names them; the first has the keys,
 * the others the tensors. Files appear under their names when all are whole, in place of old ones; killed before, the
 * old ones are as they were. go_on, unless NULL, is asked about once per megabyte with the bytes written and those of
 * all files; false: QSA_E_CANCELLED, nothing is left; go_on may call anything. Errors: QSA_E_ARGUMENT (an option, by
 * name), QSA_E_IO (a disk with too little room is found before anything is written). */
qsa_status qsa_random_model_write(const char *path, const qsa_random_model *options,
                                  bool (*go_on)(void *user, uint64_t written, uint64_t bytes), void *user);

QSA_END_DECLS
#endif
