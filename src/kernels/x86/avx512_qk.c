/* SPDX-License-Identifier: Apache-2.0 */
/* QK^T over the selected tokens (SPEC section 6, rule 4). Lanes are tokens: a tile of four blocks is one vector of 16,
 * which up to twelve heads share: a whole kv head of the released shape in one pass. */
#include "kernels/simd/qk.h"
#include "kernels/x86/avx512.h"

/* While a set of tiles is worked on, the blocks of the next set are prefetched side by side: eight streams come faster
 * than four. */
enum { SET_TILES = 2, SET_BLOCKS = SET_TILES * QK_BLOCKS };

typedef struct k_tile {
    const void *block[QK_BLOCKS];
    const char *const *next; /* [SET_BLOCKS] */
    uint32_t number;         /* in its set */
} k_tile;

QSA_INLINE __m128i load_quarter(const void *block, size_t offset)
{
    return _mm_loadu_si128((const __m128i *)((const char *)block + offset));
}

/* 16 bytes at a byte offset into each of the four blocks, one after the other. */
QSA_INLINE __m512i load_quarters(const k_tile *k, size_t offset)
{
    const __m256i low = _mm256_castsi128_si256(load_quarter(k->block[0], offset));
    const __m256i high = _mm256_castsi128_si256(load_quarter(k->block[2], offset));
    return join(_mm256_inserti128_si256(low, load_quarter(k->block[1], offset), 1),
                _mm256_inserti128_si256(high, load_quarter(k->block[3], offset), 1));
}

QSA_INLINE __m512i load_two_halves(const void *block, const void *next_block, size_t offset)
{
    return join(_mm256_loadu_si256((const __m256i *)((const char *)block + offset)),
                _mm256_loadu_si256((const __m256i *)((const char *)next_block + offset)));
}

/* load_quarters at offset and at offset + 16, in fewer instructions than two of them. */
QSA_INLINE void load_quarters_twice(const k_tile *k, size_t offset, __m512i quarters[2])
{
    const __m512i low = load_two_halves(k->block[0], k->block[1], offset);
    const __m512i high = load_two_halves(k->block[2], k->block[3], offset);
    quarters[0] = _mm512_shuffle_i64x2(low, high, 0x88);
    quarters[1] = _mm512_shuffle_i64x2(low, high, 0xdd);
}

/* Two dimensions of two bytes each, from load_quarters. */
QSA_INLINE tile widen_two_dimensions(__m512i quarters, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16)
        return tile_from_bf16(quarters);
    /* one dimension of the four blocks after the other, then widened */
    const __m512i halves = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), quarters);
    return (tile){
        {_mm512_cvtph_ps(_mm512_castsi512_si256(halves)), _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1))}};
}

/* Dimension d alone. Of two bytes a load takes two: with the dimension before it, or after the first. */
QSA_INLINE vec load_dimension(const k_tile *k, size_t d, enum qsa_element type)
{
    if (type == QSA_ELEMENT_F32)
        return _mm512_castsi512_ps(load_quarters(k, d * QSA_BLOCK_TOKENS * sizeof(float)));
    const size_t first = d > 0 ? d - 1 : 0;
    return widen_two_dimensions(load_quarters(k, first * QSA_BLOCK_TOKENS * sizeof(uint16_t)), type).v[d > 0];
}

/* q is transposed, [dim][heads]. */
QSA_INLINE void add_products(const float *q, uint32_t heads, size_t d, vec keys, vec sums[MOST_ROWS])
{
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        sums[h] = vec_fma(vec_set(q[d * heads + h]), keys, sums[h]);
}

/* Half a line of each block: two dimensions of f32, four of others. */
QSA_INLINE void add_half_line(const float *q, uint32_t heads, size_t d, const k_tile *k, enum qsa_element type,
                              vec sums[MOST_ROWS])
{
    __m512i quarters[2];
    if (type == QSA_ELEMENT_F32) {
        load_quarters_twice(k, d * QSA_BLOCK_TOKENS * sizeof(float), quarters);
        add_products(q, heads, d, _mm512_castsi512_ps(quarters[0]), sums);
        add_products(q, heads, d + 1, _mm512_castsi512_ps(quarters[1]), sums);
        return;
    }
    load_quarters_twice(k, d * QSA_BLOCK_TOKENS * sizeof(uint16_t), quarters);
    QSA_UNROLL
    for (size_t i = 0; i < 2; i++) {
        const tile keys = widen_two_dimensions(quarters[i], type);
        add_products(q, heads, d + 2 * i, keys.v[0], sums);
        add_products(q, heads, d + 2 * i + 1, keys.v[1], sums);
    }
}

/* A line of each of four blocks. */
QSA_INLINE void prefetch_lines(const char *const *blocks, size_t offset)
{
    QSA_UNROLL
    for (int b = 0; b < QK_BLOCKS; b++)
        PREFETCH_L1(blocks[b] + offset);
}

QSA_INLINE void add_plain(const float *q, uint32_t heads, uint32_t dim, const k_tile *k, enum qsa_element type,
                          vec sums[MOST_ROWS])
{
    const size_t dim_bytes = QSA_BLOCK_TOKENS * (type == QSA_ELEMENT_F32 ? sizeof(float) : sizeof(uint16_t));
    const size_t line_dims = LINE_BYTES / dim_bytes;
    /* With every line of this tile goes one of four of the next blocks, of which this tile prefetches a half. */
    size_t d = 0, next = k->number * (dim / line_dims / SET_TILES * LINE_BYTES);
    for (; d + 2 * line_dims <= dim; d += 2 * line_dims, next += LINE_BYTES) {
        prefetch_lines(k->next, next);
        add_half_line(q, heads, d, k, type, sums);
        add_half_line(q, heads, d + line_dims / 2, k, type, sums);
        prefetch_lines(k->next + QK_BLOCKS, next);
        add_half_line(q, heads, d + line_dims, k, type, sums);
        add_half_line(q, heads, d + line_dims + line_dims / 2, k, type, sums);
    }
    for (; d < dim; d++)
        add_products(q, heads, d, load_dimension(k, d, type), sums);
}

/* Four dimensions of a chunk of q8_0, from load_quarters. */
QSA_INLINE void add_four_quants(const float *q, uint32_t heads, size_t d, __m512i quarters, vec scales,
                                vec sums[MOST_ROWS])
{
    const __m512i transposed = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i quants = _mm512_permutexvar_epi32(transposed, quarters);
    const __m128i of_dim[4] = {_mm512_castsi512_si128(quants), _mm512_extracti32x4_epi32(quants, 1),
                               _mm512_extracti32x4_epi32(quants, 2), _mm512_extracti32x4_epi32(quants, 3)};
    QSA_UNROLL
    for (size_t i = 0; i < 4; i++)
        add_products(q, heads, d + i, sixteen_quants(of_dim[i], scales), sums);
}

/* The scales of 16 tokens, from a byte offset on. */
QSA_INLINE vec load_scales(const k_tile *k, size_t offset)
{
    __m128i eight[QK_BLOCKS];
    QSA_UNROLL
    for (int b = 0; b < QK_BLOCKS; b++)
        eight[b] = _mm_loadl_epi64((const __m128i *)(const void *)((const char *)k->block[b] + offset));
    return _mm512_cvtph_ps(
        _mm256_set_m128i(_mm_unpacklo_epi64(eight[2], eight[3]), _mm_unpacklo_epi64(eight[0], eight[1])));
}

/* q8_0: a chunk of 32 dimensions has its scales in front. */
QSA_INLINE void add_chunks(const float *q, uint32_t heads, uint32_t dim, const k_tile *k, vec sums[MOST_ROWS])
{
    for (size_t d = 0, chunk = 0; d < dim; d += QSA_CHUNK_DIMS, chunk += QSA_K_CHUNK_BYTES) {
        for (size_t line = 0; line < QSA_K_CHUNK_BYTES; line += LINE_BYTES)
            prefetch_lines(k->next + k->number * QK_BLOCKS, chunk + line);
        const vec scales = load_scales(k, chunk);
        const size_t quants = chunk + QSA_BLOCK_TOKENS * sizeof(uint16_t);
        for (size_t i = 0; i < QSA_CHUNK_DIMS; i += 8) {
            __m512i quarters[2];
            load_quarters_twice(k, quants + i * QSA_BLOCK_TOKENS, quarters);
            add_four_quants(q, heads, d + i, quarters[0], scales, sums);
            add_four_quants(q, heads, d + i + 4, quarters[1], scales, sums);
        }
    }
}

/* A tile's scores with `heads` heads: head h at out + h * out_stride. */
QSA_INLINE void qk_tile(const float *q, uint32_t heads, uint32_t dim, const k_tile *k, enum qsa_element type,
                        float *out, size_t out_stride)
{
    vec sums[MOST_ROWS];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        sums[h] = vec_zero();
    if (type == QSA_ELEMENT_Q8_0)
        add_chunks(q, heads, dim, k, sums);
    else
        add_plain(q, heads, dim, k, type, sums);
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        vec_store(out + h * out_stride, sums[h]);
}

/* All tiles; the last may have fewer blocks, but writes all its scores. */
QSA_INLINE void qk_tiles_of(const qsa_qk_call *c, uint32_t heads, enum qsa_element type)
{
    const char *next[SET_BLOCKS] = {NULL};
    float *out = c->out;
    for (uint32_t b = 0; b < c->n_blocks; b += QK_BLOCKS, out += QK_TOKENS) {
        k_tile k = {.next = next, .number = b / QK_BLOCKS % SET_TILES};
        for (uint32_t i = 0; i < QK_BLOCKS; i++)
            k.block[i] = qk_block(c, b + i);
        for (uint32_t i = 0; k.number == 0 && i < SET_BLOCKS; i++)
            next[i] = qk_block(c, b + SET_BLOCKS + i);
        qk_tile(c->q, heads, c->dim, &k, type, out, c->out_stride);
    }
}

static void qk_tiles(const qsa_qk_call *c, enum qsa_element type)
{
    QSA_WITH_ELEMENT(type, QSA_WITH_ROWS(c->heads, qk_tiles_of(c, constant_rows, constant_type)))
}

/* The first set, which nothing before it prefetches. */
static void prefetch_first(const qsa_qk_call *c, enum qsa_element type)
{
    const size_t block_bytes = QSA_BLOCK_TOKENS * qsa_row_bytes(type, c->dim);
    for (uint32_t b = 0; b < c->n_blocks && b < SET_BLOCKS; b++)
        for (size_t at = 0; at < block_bytes; at += LINE_BYTES)
            PREFETCH_L1((const char *)c->blocks[b] + at);
}

/* As many heads as share one pass. Blocks that are no whole tile go through a buffer. */
static void qk_pass(qsa_qk_call c, enum qsa_element type)
{
    float q[QSA_MAX_DIM * MOST_ROWS], rest[MOST_ROWS * QK_TOKENS];
    const uint32_t left = c.n_blocks % QK_BLOCKS, whole = c.n_blocks - left;
    qk_transpose(c.q, c.heads, c.dim, q);
    c.q = q;
    c.n_blocks = whole;
    qk_tiles(&c, type);
    if (left == 0)
        return;
    float *out = c.out + (size_t)whole * QSA_BLOCK_TOKENS;
    const size_t out_stride = c.out_stride;
    c.blocks += whole;
    c.n_blocks = left;
    c.out = rest;
    c.out_stride = QK_TOKENS;
    qk_tiles(&c, type);
    for (uint32_t h = 0; h < c.heads; h++)
        memcpy(out + h * out_stride, rest + QK_TOKENS * h, left * QSA_BLOCK_TOKENS * sizeof *out);
}

void qsa_qk__avx512(const qsa_qk_call *call, enum qsa_element type)
{
    qsa_expect_qk(call, type);
    prefetch_first(call, type);
    for (uint32_t first = 0, heads; first < call->heads; first += heads) {
        heads = rows_next(call->heads - first);
        qk_pass(qk_of_heads(call, first, heads), type);
    }
}
