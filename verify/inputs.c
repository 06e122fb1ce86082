/* SPDX-License-Identifier: Apache-2.0 */
/* A case is written down as a record of the golden format and read back, so that it is made by the reader's code. */
#include "verify/inputs.h"

#include "verify/golden_numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const lane_shape lane_small = {4, 2, 64, 2, 32, 16, {3, 3, 2}, 32, 4};
const lane_shape lane_thin = {2, 1, 16, 2, 16, 8, {2, 1, 1}, 2048, 4};
const lane_shape lane_released = {24, 2, 256, 4, 128, 64, {11, 11, 10}, 2048, 4};

static const char RECORD[] =
    "golden 1\nkind canonical\ncase lane\nkind path\nkv_type %s\nprofile %s\nq_heads %u\nkv_heads %u\nhead_dim %u\n"
    "rotary_dim %u\nindex_heads %u\nindex_dim %u\nbudget %u\nratio %u\ntheta 10000000.0\nsections %u %u %u\neps 1e-06\n"
    "n %u\nanchor %lld\nframe 0\nwindow 0\nfactor_bits 3fddb3d7\n"
    "stream_index_q 101\nstream_raw_key 102\nstream_q_norm 103\nstream_k_norm 104\nstream_q 105\nstream_k 106\n"
    "stream_v 107\nstream_main_q_norm 108\nstream_main_k_norm 109\n"
    "scale_index_q 2^0\nscale_raw_key 2^0\nscale_q 2^1\nscale_k 2^0\nscale_v 2^0\nscale_v_odd 2^0\n"
    "scale_main_q_norm 2^-2\nqueries 0 %u\nend\n";

golden_case lane_case(const lane_shape *s, uint32_t n, int64_t anchor, bool kv_bf16, bool index_bf16)
{
    char text[2048];
    golden_error error = {{0}};
    golden_case c = {0};
    snprintf(text, sizeof text, RECORD, kv_bf16 ? "bf16" : "f32", index_bf16 ? "bf16" : "f32", s->q_heads, s->kv_heads,
             s->head_dim, s->rotary_dim, s->index_heads, s->index_dim, s->budget, s->ratio, s->sections[0],
             s->sections[1], s->sections[2], n, (long long)anchor, n - 1);
    golden_file *file = golden_parse(text, strlen(text), "lane", &error);
    if (!file || !golden_case_from_path(golden_record_at(file, 0), &c, &error)) {
        fprintf(stderr, "qsa verify: %s\n", error.text);
        exit(EXIT_FAILURE);
    }
    golden_free(file); /* a case without triples keeps nothing of it */
    return c;
}

float lane_value(uint64_t stream, uint64_t k)
{
    return golden_value(stream, k) * 1.7320508f;
}
