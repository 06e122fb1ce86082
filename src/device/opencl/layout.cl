/* SPDX-License-Identifier: Apache-2.0 */
/* Pages as in device/layout.h, and the description of a step that the host uploads (store.h). Offsets are 64-bit. */

#define PAGE_TOKENS 64
#define CHUNK_PAGES 128 /* of a page table (table.h) */
#define PAGE_GROUPS (PAGE_TOKENS / QSA_RATIO)
#define BLOCK_TOKENS 4
#define CHUNK_DIMS 32
#define V_CHUNK_BYTES 34
#define K_CHUNK_BYTES (4 * V_CHUNK_BYTES)

/* Element types of K and V, and of the index. */
#define F32 0
#define BF16 1
#define F16 2
#define Q8_0 3

#if QSA_KV == Q8_0
#define ROW_BYTES (QSA_HEAD_DIM / CHUNK_DIMS * V_CHUNK_BYTES)
#elif QSA_KV == F32
#define ROW_BYTES (QSA_HEAD_DIM * 4)
#else
#define ROW_BYTES (QSA_HEAD_DIM * 2)
#endif
#define BLOCK_BYTES (BLOCK_TOKENS * ROW_BYTES) /* of K, or of V */
#define KV_PAGE_BYTES ((ulong)PAGE_TOKENS * QSA_KV_HEADS * 2 * ROW_BYTES)

#if QSA_INDEX == F32
typedef float index_type;
#else
typedef ushort index_type;
#endif
#define RAW_PAGE ((ulong)PAGE_TOKENS * QSA_INDEX_DIM)
#define POOLED_PAGE ((ulong)PAGE_GROUPS * QSA_INDEX_DIM)

/* ---- a step ---- */

/* A token: its place, and what its query can attend to, counted from the first stored token of its sequence. */
typedef struct {
    ulong first_group, end_group; /* candidates */
    ulong tail;                   /* first token after the last complete group */
    uint n_tail;
    uint entry;
    uint page, slot;
} token_t;

/* A sequence of the step. */
typedef struct {
    ulong directory;  /* index into the tables of this sequence's directory */
    ulong first_slot; /* of the run, counted from the start of its table */
} entry_t;

/* Page number i of a sequence, counted from the start of its table. tables: chunks of CHUNK_PAGES page numbers, then
 * directories. */
uint page_of(global const uint *tables, const entry_t entry, ulong i)
{
    return tables[(ulong)tables[entry.directory + i / CHUNK_PAGES] * CHUNK_PAGES + i % CHUNK_PAGES];
}

/* A group to pool. */
typedef struct {
    uint page, slot; /* of its first token */
    uint row;        /* of the rotary table */
} group_t;

/* Input of a token, in this order; queries only where output is wanted. */
#define IN_K 0
#define IN_V (QSA_KV_HEADS * QSA_HEAD_DIM)
#define IN_RAW (2 * IN_V)
#define IN_Q (IN_RAW + QSA_INDEX_DIM)
#define IN_INDEX_Q (IN_Q + QSA_Q_HEADS * QSA_HEAD_DIM)
#define IN_STORED IN_Q
#define IN_ALL (IN_INDEX_Q + QSA_INDEX_HEADS * QSA_INDEX_DIM)

/* ---- K and V ---- */

/* The K block of a slot, and the V row of a slot: their order alternates from block to block. */
ulong half_at(uint page, uint head, uint slot, uint second)
{
    return page * KV_PAGE_BYTES +
           (ulong)((head * (PAGE_TOKENS / BLOCK_TOKENS) + slot / BLOCK_TOKENS) * 2 + second) * BLOCK_BYTES;
}

ulong block_at(uint page, uint head, uint slot)
{
    return half_at(page, head, slot, slot / BLOCK_TOKENS % 2);
}

ulong v_at(uint page, uint head, uint slot)
{
    return half_at(page, head, slot, 1 - slot / BLOCK_TOKENS % 2) + slot % BLOCK_TOKENS * ROW_BYTES;
}

/* n elements of K or V from `pointer` on, widened. */
#if QSA_KV == F32
#define LOAD_KV(n, pointer, i) LOAD(n, (global const float *)(pointer) + (i))
#elif QSA_KV == BF16
#define LOAD_KV(n, pointer, i) WIDEN_BF16(n, LOAD(n, (global const ushort *)(pointer) + (i)))
#elif QSA_KV == F16
#define LOAD_KV(n, pointer, i) WIDEN_F16(n, LOAD(n, (global const ushort *)(pointer) + (i)))
#endif

/* QSA_WIDTH dimensions of a V row from d on. */
floats load_v(global const uchar *row, uint d)
{
#if QSA_KV == Q8_0
    global const uchar *chunk = row + d / CHUNK_DIMS * V_CHUNK_BYTES;
    const float scale = WIDEN_F16(1, *(global const ushort *)chunk);
    return TO_FLOAT(QSA_WIDTH, LOAD(QSA_WIDTH, (global const char *)chunk + 2 + d % CHUNK_DIMS)) * scale;
#else
    return LOAD_KV(QSA_WIDTH, row, d);
#endif
}

/* Tokens that are adjacent in every selection: a whole block, unless groups are shorter. */
#if QSA_RATIO >= BLOCK_TOKENS
#define TOGETHER BLOCK_TOKENS
#else
#define TOGETHER 1
#endif
typedef VECTOR(float, TOGETHER) tokens;

/* Dimension d of the tokens of a K block from lane t on. */
tokens load_k(global const uchar *block, uint d, uint t)
{
#if QSA_KV == Q8_0
    global const uchar *chunk = block + d / CHUNK_DIMS * K_CHUNK_BYTES;
    const tokens scale = WIDEN_F16(TOGETHER, LOAD(TOGETHER, (global const ushort *)chunk + t));
    global const char *quants = (global const char *)chunk + 2 * BLOCK_TOKENS + d % CHUNK_DIMS * BLOCK_TOKENS;
    return scale * TO_FLOAT(TOGETHER, LOAD(TOGETHER, quants + t));
#else
    return LOAD_KV(TOGETHER, block, d * BLOCK_TOKENS + t);
#endif
}

/* ---- index keys ---- */

#if QSA_INDEX == F32
#define LOAD_INDEX(n, pointer) LOAD(n, pointer)
#define TO_INDEX(x) (x)
#define ROUND_INDEX(x) (x)
#else
#define LOAD_INDEX(n, pointer) WIDEN_BF16(n, LOAD(n, pointer))
#define TO_INDEX(x) to_bf16(x)
#define ROUND_INDEX(x) round_bf16(x) /* the profile's rounding of an f32 result */
#endif
