/* A small world to try the library in: shapes, tokens whose every value follows from one number, steps in chunks, parts
 * and threads, an allocator that watches, and the naive oracle beside it all. */
#ifndef WORLD_H
#define WORLD_H

#include "oracle/oracle.h"
#include "support.h"

#include <qsa/qsa.h>
#include <stdbool.h>

/* MINI: ratio 4, budget 2 groups (longest row 11, first drop at 12 tokens), 1 index head x 8, 2 query heads over
 * 1 kv head x 8, 3 layers, everything f32. */
qsa_config world_mini(void);
/* The released ratio and budget (512 groups, first drop at 2,052 tokens) over heads of 4 dimensions; 1 layer, bf16. */
qsa_config world_narrow(void);
/* Sets the K/V type, and the least head_dim that it allows if the present one is none. */
void world_kv_type(qsa_config *config, int kv_type);
/* The released shape of one layer: 24 query heads, 2 kv heads x 256, 4 index heads x 128, bf16. */
qsa_config world_released(void);

/* Fails the test with name and detail unless status is QSA_OK. */
void world_ok(qsa_status status);
/* Fails the test unless the status is the expected one and its detail holds `part`. */
void world_refused(qsa_status expected, const char *part, qsa_status found);

/* ---- tokens ---- */

/* Input and results of some tokens, in all layers. Token t, layer l of a tensor at (t * layers + l) * width. */
typedef struct world_batch {
    qsa_config config;
    uint32_t tokens;
    float *q, *k, *v, *index_q, *raw_key; /* [tokens][layers][heads][dim] */
    float *out;                           /* [tokens][layers][q_heads][head_dim] */
    uint32_t *groups;                     /* [tokens][layers][budget / ratio] */
    uint32_t *n_groups;                   /* [tokens][layers] */
} world_batch;

/* Tokens whose values follow from first_id + t. */
world_batch world_batch_open(const qsa_config *config, uint32_t tokens, uint32_t first_id);
/* Gives one token the values of another id (below 2^24). */
void world_batch_set(world_batch *batch, uint32_t token, uint32_t id);
void world_batch_close(world_batch *batch);

/* Bytes of one token's input in one layer, of the tensors in the order of qsa_tensors. */
enum { WORLD_Q = 0, WORLD_K, WORLD_V, WORLD_INDEX_Q, WORLD_RAW_KEY, WORLD_INPUTS };
float *world_input(const world_batch *batch, int tensor, uint32_t token, uint32_t layer, uint32_t *out_width);

/* The tensors of the tokens from `first` on in one layer, as a layer takes them. */
qsa_tensors world_tensors(const world_batch *batch, uint32_t first, uint32_t layer);
qsa_output world_output(const world_batch *batch, uint32_t first, uint32_t layer);

/* ---- steps ---- */

/* How a layer is run. All zero: on this thread, in one part. */
typedef struct world_way {
    uint32_t parts;       /* of every phase; 0: qsa_step_layer */
    qsa_threads *threads; /* takes the place of parts */
} world_way;

/* Runs all layers over the batch's tokens from `first` on and collects outputs and selections. */
qsa_status world_layers(qsa_step *step, world_batch *batch, uint32_t first, uint32_t n, world_way way);
/* begin, layers, commit, check. The entries' tokens are those of the batch from `first` on. */
void world_step(qsa_cache *cache, const qsa_entry *entries, size_t n, world_batch *batch, uint32_t first, world_way way,
                const uint32_t *keep);
/* Feeds tokens [first, first + n) of a batch to a sequence at `position`, in steps of `chunk` tokens (0: one step). */
void world_feed(qsa_cache *cache, qsa_seq seq, int64_t position, world_batch *batch, uint32_t first, uint32_t n,
                uint32_t chunk, world_way way);

/* Outputs and selections of `n` tokens are equal, bit for bit. */
void world_same(const char *what, const world_batch *expected, uint32_t first_expected, const world_batch *found,
                uint32_t first_found, uint32_t n);

/* A cache of its own for one run: created, fed, results in the batch. Returns the digest of the sequence. */
uint64_t world_solo(const qsa_config *config, int64_t position, world_batch *batch, uint32_t chunk, world_way way);

uint64_t world_digest(qsa_cache *cache, qsa_seq seq);
qsa_seq world_open(qsa_cache *cache);
qsa_cache *world_create(const qsa_config *config);

/* ---- the oracle ---- */

oracle_shape world_oracle_shape(const qsa_config *config);
/* Appends tokens [first, first + n) of a batch to an oracle of one layer. triples [n] or NULL. */
void world_oracle_append(oracle_run *run, const world_batch *batch, uint32_t layer, uint32_t first, uint32_t n,
                         const qsa_triple *triples);
/* Selection and output of a batch's token are those of the query at `offset` of the oracle's run. False if not. */
bool world_oracle_agrees(const oracle_run *run, int offset, const world_batch *batch, uint32_t token, uint32_t layer);

/* ---- memory ---- */

enum { WORLD_BLOCKS = 64 };

typedef struct world_memory {
    uint64_t live_bytes, calls;
    uint64_t fail_at; /* number of the call that finds no memory, from 1; 0: none */
    bool poison;      /* fill with 0xff: NaN in f32 and in bf16 */
    struct {
        void *memory;
        size_t bytes;
    } blocks[WORLD_BLOCKS];
} world_memory;

/* An allocator that counts, checks what is released, poisons and fails. */
qsa_allocator world_allocator(world_memory *memory);

/* ---- chance ---- */

/* A number below n, n > 0; state is any number. */
uint32_t world_random(uint64_t *state, uint32_t n);

#endif
