/* SPDX-License-Identifier: Apache-2.0 */
/* Append: checks, norms, rotates and stores the new tokens, and pools the groups that are complete. A work-group
 * takes one token, or one group, at a time. Work-groups always have QSA_ITEMS work-items; results do not depend on
 * their number. */

#define INPUT_LIMIT 0x5b800000u /* 2^56, as bits */
#define F16_LIMIT 65520.0f

/* Tensors in the order in which they are reported (device/refusal.h). */
#define INPUT_Q 0
#define INPUT_K 1
#define INPUT_V 2
#define INPUT_INDEX_Q 3
#define INPUT_RAW_KEY 4
#define INPUT_K_STORED 5
#define INPUT_V_STORED 6
#define INPUTS 8

/* The first refused (token, tensor) of the step, packed in one word. */
void refuse(global uint *refused, uint token, uint input)
{
    atomic_min(refused, token * INPUTS + input);
}

void check(global const float *x, uint n, global uint *refused, uint token, uint input)
{
    uint bad = 0;
    for (uint i = get_local_id(0); i < n; i += QSA_ITEMS)
        bad |= (as_uint(x[i]) & 0x7fffffffu) > INPUT_LIMIT ? 1 : 0; /* a NaN too */
    if (bad)
        refuse(refused, token, input);
}

/* 1 / sqrt(mean of squares + eps) */
float norm_scale(float squares, uint dim)
{
    return divide(1.0f, root(divide(squares, (float)dim) + QSA_EPS));
}

#define NORM(x, scale, weight) (((x) * (scale)) * (weight))

/* Rotates elements d and d + pairs of a head. No fma: every product is rounded. */
float2 rotate_main(float lo, float hi, float c, float s)
{
#ifdef QSA_PLANT_CONTRACTION /* what a compiler must not do; for the tests */
    return (float2)(fma(lo, c, -(hi * s)), fma(hi, c, lo * s));
#else
    return (float2)(lo * c - hi * s, hi * c + lo * s);
#endif
}

float2 rotate_index(float lo, float hi, float c, float s)
{
    const float cos = ROUND_INDEX(c), sin = ROUND_INDEX(s);
    return (float2)(ROUND_INDEX(ROUND_INDEX(lo * cos) - ROUND_INDEX(hi * sin)),
                    ROUND_INDEX(ROUND_INDEX(hi * cos) + ROUND_INDEX(lo * sin)));
}

/* Work-items of a head: first its pairs, then its elements that do not rotate. Returns the (first) element
 * of item i. */
uint element_of(uint i)
{
    return i < QSA_PAIRS ? i : i + QSA_PAIRS;
}

/* Norms and rotates heads of q or k in place, then scales them by c (1 for k). */
void norm_rotate_main(global float *x, uint heads, local const float *scales, global const float *weight,
                      global const float *cos_sin, float c)
{
    const uint units = QSA_HEAD_DIM - QSA_PAIRS;
    for (uint i = get_local_id(0); i < heads * units; i += QSA_ITEMS) {
        const uint head = i / units, d = element_of(i % units);
        global float *y = x + (ulong)head * QSA_HEAD_DIM;
        const float lo = NORM(y[d], scales[head], weight[d]);
        if (d >= QSA_PAIRS) {
            y[d] = lo * c;
            continue;
        }
        const float hi = NORM(y[d + QSA_PAIRS], scales[head], weight[d + QSA_PAIRS]);
        const float2 pair = rotate_main(lo, hi, cos_sin[d], cos_sin[QSA_PAIRS + d]) * c;
        y[d] = pair.x;
        y[d + QSA_PAIRS] = pair.y;
    }
}

/* The same for the index query, with the rounding of the profile. */
void norm_rotate_index(global float *x, local const float *scales, global const float *weight,
                       global const float *cos_sin)
{
    const uint units = QSA_INDEX_DIM - QSA_PAIRS;
    for (uint i = get_local_id(0); i < QSA_INDEX_HEADS * units; i += QSA_ITEMS) {
        const uint head = i / units, d = element_of(i % units);
        global float *y = x + (ulong)head * QSA_INDEX_DIM;
        const float lo = ROUND_INDEX(NORM(y[d], scales[head], weight[d]));
        if (d >= QSA_PAIRS) {
            y[d] = lo;
            continue;
        }
        const float hi = ROUND_INDEX(NORM(y[d + QSA_PAIRS], scales[head], weight[d + QSA_PAIRS]));
        const float2 pair = rotate_index(lo, hi, cos_sin[d], cos_sin[QSA_PAIRS + d]);
        y[d] = pair.x;
        y[d + QSA_PAIRS] = pair.y;
    }
}

float squares_of(global const float *x, uint dim)
{
    float squares = 0.0f;
    for (uint i = 0; i < dim; i++)
        squares = fma(x[i], x[i], squares);
    return squares;
}

/* ---- storing ---- */

/* Stores one token's row of one head, one element (or chunk) per work-item. Element d goes to out + d * stride
 * elements; in q8_0 a chunk's `scale`, and its quants to every stride-th byte. Returns 0 if the type cannot hold
 * a value. */
uint store_row(global const float *x, global uchar *out, uint lane, uint stride)
{
    uint fits = 1;
#if QSA_KV == Q8_0
    for (uint chunk = get_local_id(0); chunk < QSA_HEAD_DIM / CHUNK_DIMS; chunk += QSA_ITEMS) {
        global const float *from = x + chunk * CHUNK_DIMS;
        global uchar *to = out + chunk * V_CHUNK_BYTES * stride;
        float most = 0.0f;
        for (uint i = 0; i < CHUNK_DIMS; i++)
            most = fmax(most, fabs(from[i]));
        const float d = divide(most, 127.0f);
        fits = fits && d < F16_LIMIT;
        const ushort scale = d < F16_LIMIT ? to_f16(d) : 0;
        const float reciprocal = scale == 0 ? 0.0f : divide(1.0f, d);
        ((global ushort *)to)[lane] = scale;
        global char *quants = (global char *)to + 2 * stride + lane;
        for (uint i = 0; i < CHUNK_DIMS; i++)
            quants[i * stride] = scale == 0 ? 0 : (char)(int)rint(from[i] * reciprocal);
    }
#else
    for (uint d = get_local_id(0); d < QSA_HEAD_DIM; d += QSA_ITEMS) {
        const ulong at = (ulong)d * stride + lane;
#if QSA_KV == F32
        ((global float *)out)[at] = x[d];
#elif QSA_KV == BF16
        ((global ushort *)out)[at] = to_bf16(x[d]);
#else
        fits = fits && fabs(x[d]) < F16_LIMIT;
        ((global ushort *)out)[at] = fabs(x[d]) < F16_LIMIT ? to_f16(x[d]) : 0;
#endif
    }
#endif
    return fits;
}

void store_token(global const float *x, global const token_t *token, uint number, global uchar *kv,
                 global index_type *raw, global uint *refused)
{
    const uint page = token->page, slot = token->slot;
    for (uint head = 0; head < QSA_KV_HEADS; head++) {
        if (!store_row(x + IN_K + head * QSA_HEAD_DIM, kv + block_at(page, head, slot), slot % BLOCK_TOKENS,
                       BLOCK_TOKENS))
            refuse(refused, number, INPUT_K_STORED);
        if (!store_row(x + IN_V + head * QSA_HEAD_DIM, kv + v_at(page, head, slot), 0, 1))
            refuse(refused, number, INPUT_V_STORED);
    }
    global index_type *key = raw + page * RAW_PAGE + (ulong)slot * QSA_INDEX_DIM;
    for (uint d = get_local_id(0); d < QSA_INDEX_DIM; d += QSA_ITEMS)
        key[d] = TO_INDEX(x[IN_RAW + d]);
}

/* weights: for each layer q, k [head_dim], index_q, index_k [index_dim]. */
#define W_Q 0
#define W_K QSA_HEAD_DIM
#define W_INDEX_Q (2 * QSA_HEAD_DIM)
#define W_INDEX_K (W_INDEX_Q + QSA_INDEX_DIM)
#define W_LAYER (W_INDEX_K + QSA_INDEX_DIM)

/* Norm scales of all heads of a token: k, then (with queries) q, then index q. */
#define SCALES_Q QSA_KV_HEADS
#define SCALES_INDEX (QSA_KV_HEADS + QSA_Q_HEADS)
#define SCALES (SCALES_INDEX + QSA_INDEX_HEADS)

void norm_scales(global float *x, uint n, local float *scales)
{
    for (uint head = get_local_id(0); head < n; head += QSA_ITEMS)
        if (head < SCALES_Q)
            scales[head] = norm_scale(squares_of(x + IN_K + head * QSA_HEAD_DIM, QSA_HEAD_DIM), QSA_HEAD_DIM);
        else if (head < SCALES_INDEX)
            scales[head] =
                norm_scale(squares_of(x + IN_Q + (head - SCALES_Q) * QSA_HEAD_DIM, QSA_HEAD_DIM), QSA_HEAD_DIM);
        else
            scales[head] = norm_scale(squares_of(x + IN_INDEX_Q + (head - SCALES_INDEX) * QSA_INDEX_DIM, QSA_INDEX_DIM),
                                      QSA_INDEX_DIM);
}

kernel __attribute__((reqd_work_group_size(QSA_ITEMS, 1, 1))) void append(
    global float *in, uint n_tokens, uint queries, global const token_t *tokens, global const float *cos_sin,
    global const float *weights, uint layer, global uchar *kv, global index_type *raw,
    global uint *refused)
{
    local float scales[SCALES];
    weights += (ulong)layer * W_LAYER;
    for (uint t = get_group_id(0); t < n_tokens; t += get_num_groups(0)) {
        global float *x = in + (ulong)t * (queries ? IN_ALL : IN_STORED);
        global const float *table = cos_sin + (ulong)t * 2 * QSA_PAIRS;
        check(x + IN_K, QSA_KV_HEADS * QSA_HEAD_DIM, refused, t, INPUT_K);
        check(x + IN_V, QSA_KV_HEADS * QSA_HEAD_DIM, refused, t, INPUT_V);
        check(x + IN_RAW, QSA_INDEX_DIM, refused, t, INPUT_RAW_KEY);
        if (queries) {
            check(x + IN_Q, QSA_Q_HEADS * QSA_HEAD_DIM, refused, t, INPUT_Q);
            check(x + IN_INDEX_Q, QSA_INDEX_HEADS * QSA_INDEX_DIM, refused, t, INPUT_INDEX_Q);
#if QSA_INDEX == BF16
            for (uint i = get_local_id(0); i < QSA_INDEX_HEADS * QSA_INDEX_DIM; i += QSA_ITEMS)
                x[IN_INDEX_Q + i] = round_bf16(x[IN_INDEX_Q + i]);
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        norm_scales(x, queries ? SCALES : SCALES_Q, scales);
        barrier(CLK_LOCAL_MEM_FENCE);
        norm_rotate_main(x + IN_K, QSA_KV_HEADS, scales, weights + W_K, table, 1.0f);
        if (queries) {
            norm_rotate_main(x + IN_Q, QSA_Q_HEADS, scales + SCALES_Q, weights + W_Q, table, QSA_QUERY_SCALE);
            norm_rotate_index(x + IN_INDEX_Q, scales + SCALES_INDEX, weights + W_INDEX_Q, table);
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        store_token(x, tokens + t, t, kv, raw, refused);
    }
}

/* Pooled keys of complete groups. */
kernel __attribute__((reqd_work_group_size(QSA_ITEMS, 1, 1))) void pool(
    global const group_t *groups, uint n_groups, global const float *cos_sin, global const float *weights, uint layer,
    global const index_type *raw, global index_type *pooled)
{
    local float mean[QSA_INDEX_DIM];
    local float scale;
    weights += (ulong)layer * W_LAYER;
    for (uint g = get_group_id(0); g < n_groups; g += get_num_groups(0)) {
        const group_t group = groups[g];
        global const index_type *keys = raw + group.page * RAW_PAGE + (ulong)group.slot * QSA_INDEX_DIM;
        global const float *table = cos_sin + (ulong)group.row * 2 * QSA_PAIRS;
        global index_type *out = pooled + group.page * POOLED_PAGE + group.slot / QSA_RATIO;
        for (uint d = get_local_id(0); d < QSA_INDEX_DIM; d += QSA_ITEMS) {
            float sum = LOAD_INDEX(1, keys + d);
            for (uint t = 1; t < QSA_RATIO; t++)
                sum = sum + LOAD_INDEX(1, keys + t * QSA_INDEX_DIM + d);
            mean[d] = ROUND_INDEX(sum * (1.0f / QSA_RATIO));
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (get_local_id(0) == 0) {
            float squares = 0.0f;
            for (uint d = 0; d < QSA_INDEX_DIM; d++)
                squares = fma(mean[d], mean[d], squares);
            scale = norm_scale(squares, QSA_INDEX_DIM);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = get_local_id(0); i < QSA_INDEX_DIM - QSA_PAIRS; i += QSA_ITEMS) {
            const uint d = element_of(i);
            const float lo = ROUND_INDEX(NORM(mean[d], scale, weights[W_INDEX_K + d]));
            if (d >= QSA_PAIRS) {
                out[d * PAGE_GROUPS] = TO_INDEX(lo);
                continue;
            }
            const float hi = ROUND_INDEX(NORM(mean[d + QSA_PAIRS], scale, weights[W_INDEX_K + d + QSA_PAIRS]));
            const float2 pair = rotate_index(lo, hi, table[d], table[QSA_PAIRS + d]);
            out[d * PAGE_GROUPS] = TO_INDEX(pair.x);
            out[(d + QSA_PAIRS) * PAGE_GROUPS] = TO_INDEX(pair.y);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* Copies n consecutive slots of one page to those of another (or the same): K, V and raw keys of a layer. In order of
 * slot, so a copy towards the front may overlap. One work-group. */
kernel __attribute__((reqd_work_group_size(QSA_ITEMS, 1, 1))) void copy_slots(
    uint from_page, uint from_slot, uint to_page, uint to_slot, uint n, global uchar *kv,
    global index_type *raw)
{
    for (uint i = 0; i < n; i++) {
        const uint from = from_slot + i, to = to_slot + i;
        for (uint head = 0; head < QSA_KV_HEADS; head++) {
            global const uchar *from_block = kv + block_at(from_page, head, from);
            global uchar *to_block = kv + block_at(to_page, head, to);
            const uint a = from % BLOCK_TOKENS, b = to % BLOCK_TOKENS;
            for (uint d = get_local_id(0); d < QSA_HEAD_DIM; d += QSA_ITEMS) {
#if QSA_KV == Q8_0
                const ulong chunk = d / CHUNK_DIMS * K_CHUNK_BYTES;
                if (d % CHUNK_DIMS == 0)
                    ((global ushort *)(to_block + chunk))[b] = ((global const ushort *)(from_block + chunk))[a];
                const ulong quant = chunk + 2 * BLOCK_TOKENS + d % CHUNK_DIMS * BLOCK_TOKENS;
                to_block[quant + b] = from_block[quant + a];
#elif QSA_KV == F32
                ((global uint *)to_block)[d * BLOCK_TOKENS + b] =
                    ((global const uint *)from_block)[d * BLOCK_TOKENS + a];
#else
                ((global ushort *)to_block)[d * BLOCK_TOKENS + b] =
                    ((global const ushort *)from_block)[d * BLOCK_TOKENS + a];
#endif
            }
            global const ushort *from_row = (global const ushort *)(kv + v_at(from_page, head, from));
            global ushort *to_row = (global ushort *)(kv + v_at(to_page, head, to));
            for (uint d = get_local_id(0); d < ROW_BYTES / 2; d += QSA_ITEMS)
                to_row[d] = from_row[d];
        }
        for (uint d = get_local_id(0); d < QSA_INDEX_DIM; d += QSA_ITEMS)
            raw[to_page * RAW_PAGE + (ulong)to * QSA_INDEX_DIM + d] =
                raw[from_page * RAW_PAGE + (ulong)from * QSA_INDEX_DIM + d];
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
