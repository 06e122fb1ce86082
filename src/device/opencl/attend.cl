/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over the selected tokens in two passes with the exact maximum (SPEC section 6, rule 4). A work-group takes
 * a query and QSA_HEADS of its heads that share a kv head. */

#define SHARED_HEADS (QSA_Q_HEADS / QSA_KV_HEADS)
#define BLOCKS (SHARED_HEADS / QSA_HEADS)
/* Most selected tokens of a query, rounded up so that a vector never ends past them. */
#define ROW_LIMIT QSA_ROW_LIMIT

/* The slot of selected token j, as page * PAGE_TOKENS + slot. */
ulong slot_of(const token_t token, const entry_t entry, global const uint *tables, global const uint *chosen,
              uint n_groups, uint j)
{
    ulong offset = token.tail + (j - n_groups * QSA_RATIO);
    if (j < n_groups * QSA_RATIO)
        offset = (drops(token) ? (ulong)chosen[j / QSA_RATIO] : token.first_group + j / QSA_RATIO) * QSA_RATIO +
                 j % QSA_RATIO;
    const ulong slot = entry.first_slot + offset;
    return (ulong)page_of(tables, entry, slot / PAGE_TOKENS) * PAGE_TOKENS + slot % PAGE_TOKENS;
}

/* x[h][j] = dot(q', k_j) */
void dots(global const float *q, global const uchar *kv, uint kv_head, global const ulong *slots, uint n,
          global float *x)
{
    for (uint j = get_local_id(0) * TOGETHER; j < n; j += QSA_ITEMS * TOGETHER) {
        const uint page = (uint)(slots[j] / PAGE_TOKENS), slot = (uint)(slots[j] % PAGE_TOKENS);
        global const uchar *block = kv + block_at(page, kv_head, slot);
        const uint lane = TOGETHER == 1 ? slot % BLOCK_TOKENS : 0;
        tokens dot[QSA_HEADS];
        for (uint h = 0; h < QSA_HEADS; h++)
            dot[h] = (tokens)0.0f;
        for (uint d = 0; d < QSA_HEAD_DIM; d++) {
            const tokens key = load_k(block, d, lane);
            for (uint h = 0; h < QSA_HEADS; h++)
                dot[h] = fma((tokens)q[h * QSA_HEAD_DIM + d], key, dot[h]);
        }
        for (uint h = 0; h < QSA_HEADS; h++)
            STORE(TOGETHER, dot[h], x + h * ROW_LIMIT + j); /* lanes past the end are overwritten below */
    }
}

/* Softmax weights in place; sums[h]: the chain L. maxima [QSA_HEADS][QSA_ITEMS]. */
void weigh(global float *x, uint n, local float *maxima, local float *sums)
{
    for (uint j = n + get_local_id(0); j < ROW_LIMIT && j < n + QSA_WIDTH; j += QSA_ITEMS)
        for (uint h = 0; h < QSA_HEADS; h++)
            x[h * ROW_LIMIT + j] = -INFINITY;
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (uint h = 0; h < QSA_HEADS; h++) {
        float most = -INFINITY;
        for (uint j = get_local_id(0); j < n; j += QSA_ITEMS)
            most = fmax(most, x[h * ROW_LIMIT + j]);
        maxima[h * QSA_ITEMS + get_local_id(0)] = most;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint h = 0; h < QSA_HEADS; h++) {
        float most = maxima[h * QSA_ITEMS];
        for (uint i = 1; i < QSA_ITEMS; i++)
            most = fmax(most, maxima[h * QSA_ITEMS + i]);
        for (uint j = get_local_id(0) * QSA_WIDTH; j < n; j += QSA_ITEMS * QSA_WIDTH)
            STORE(QSA_WIDTH, e2(LOAD(QSA_WIDTH, x + h * ROW_LIMIT + j) - (floats)most), x + h * ROW_LIMIT + j);
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (uint h = get_local_id(0); h < QSA_HEADS; h += QSA_ITEMS) {
        float sum = 0.0f;
        for (uint j = 0; j < n; j++)
            sum = sum + x[h * ROW_LIMIT + j];
        sums[h] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* out[h][d] = (A_d * R) + 0 */
void accumulate(global const float *p, global const uchar *kv, uint kv_head, global const ulong *slots, uint n,
                local const float *sums, global float *out)
{
    for (uint d = get_local_id(0) * QSA_WIDTH; d < QSA_HEAD_DIM; d += QSA_ITEMS * QSA_WIDTH) {
        floats a[QSA_HEADS];
        for (uint h = 0; h < QSA_HEADS; h++)
            a[h] = (floats)0.0f;
        for (uint j = 0; j < n; j++) {
            const uint page = (uint)(slots[j] / PAGE_TOKENS), slot = (uint)(slots[j] % PAGE_TOKENS);
            const floats value = load_v(kv + v_at(page, kv_head, slot), d);
            for (uint h = 0; h < QSA_HEADS; h++)
                a[h] = fma((floats)p[h * ROW_LIMIT + j], value, a[h]);
        }
        for (uint h = 0; h < QSA_HEADS; h++) {
            const floats product = a[h] * (floats)divide(1.0f, sums[h]);
            STORE(QSA_WIDTH, product + (floats)0.0f, out + h * QSA_HEAD_DIM + d);
        }
    }
}

/* slots [work-groups][ROW_LIMIT], x [work-groups][QSA_HEADS][ROW_LIMIT]; out [tokens][q_heads][head_dim]. */
kernel __attribute__((reqd_work_group_size(QSA_ITEMS, 1, 1))) void attend(
    global const float *in, uint n_tokens, global const token_t *all_tokens, global const entry_t *entries,
    global const uint *tables, global const uint *selected, global const uint *n_selected, global const uchar *kv,
    global ulong *slots, global float *x, global float *out)
{
    local float maxima[QSA_HEADS * QSA_ITEMS], sums[QSA_HEADS];
    slots += (ulong)get_group_id(0) * ROW_LIMIT;
    x += (ulong)get_group_id(0) * QSA_HEADS * ROW_LIMIT;
    for (ulong unit = get_group_id(0); unit < (ulong)n_tokens * QSA_KV_HEADS * BLOCKS; unit += get_num_groups(0)) {
        const uint t = (uint)(unit / (QSA_KV_HEADS * BLOCKS));
        const uint head = (uint)(unit % (QSA_KV_HEADS * BLOCKS)) * QSA_HEADS;
        const token_t token = all_tokens[t];
        const entry_t entry = entries[token.entry];
        const uint n_groups = drops(token) ? n_selected[t] : (uint)(token.end_group - token.first_group);
        const uint n = n_groups * QSA_RATIO + token.n_tail;
        for (uint j = get_local_id(0); j < n; j += QSA_ITEMS)
            slots[j] = slot_of(token, entry, tables, selected + (ulong)t * QSA_BUDGET_GROUPS, n_groups, j);
        barrier(CLK_GLOBAL_MEM_FENCE);
        dots(in + (ulong)t * IN_ALL + IN_Q + head * QSA_HEAD_DIM, kv, head / SHARED_HEADS, slots, n, x);
        barrier(CLK_GLOBAL_MEM_FENCE);
        weigh(x, n, maxima, sums);
        accumulate(x, kv, head / SHARED_HEADS, slots, n, sums, out + ((ulong)t * QSA_Q_HEADS + head) * QSA_HEAD_DIM);
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
