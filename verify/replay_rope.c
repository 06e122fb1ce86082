/* SPDX-License-Identifier: Apache-2.0 */
/* Rope files: recorded frequencies, cos and sin. */
#include "verify/golden_numbers.h"
#include "verify/replay.h"

static void round_row(const float *x, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = golden_to_bf16(x[i]);
}

static void compare_table(const golden_record *header, const qsa_rotary *rotary, report *r)
{
    golden_error error = {{0}};
    const golden_tensor *triples = golden_find_tensor(header, "triples", &error);
    const size_t pairs = rotary->pairs, rows = triples ? triples->count / 3 : 0;
    const int32_t *triple = golden_integers(header, "triples", rows * 3, &error);
    const float *cosines = golden_floats(header, "cos", rows * pairs, &error);
    const float *sines = golden_floats(header, "sin", rows * pairs, &error);
    const float *cosines_bf16 = golden_floats(header, "cos_bf16", rows * pairs, &error);
    const float *sines_bf16 = golden_floats(header, "sin_bf16", rows * pairs, &error);
    if (!replay_readable(&error, r))
        return;
    float cosine[QSA_MAX_DIM / 2], sine[QSA_MAX_DIM / 2], rounded[QSA_MAX_DIM / 2];
    for (size_t row = 0; row < rows; row++) {
        const qsa_triple t = {triple[3 * row], triple[3 * row + 1], triple[3 * row + 2]};
        if (!report_call(r, qsa_rotary_cos_sin(rotary, t, cosine, sine), "cos and sin"))
            continue;
        report_close(r, "cos, row", row, cosines + row * pairs, cosine, pairs, 2.5e-7);
        report_close(r, "sin, row", row, sines + row * pairs, sine, pairs, 2.5e-7);
        round_row(cosine, pairs, rounded);
        report_bits(r, "cos in bf16, row", row, cosines_bf16 + row * pairs, rounded, pairs);
        round_row(sine, pairs, rounded);
        report_bits(r, "sin in bf16, row", row, sines_bf16 + row * pairs, rounded, pairs);
    }
}

void replay_rope(const golden_folder *folder, const char *file, const golden_file *golden, report *r)
{
    (void)folder, (void)file;
    golden_case c;
    golden_error error = {{0}};
    qsa_rotary rotary;
    golden_case_shape(golden_header(golden), &c, &error);
    if (replay_readable(&error, r) && report_call(r, qsa_rotary_init(&c.config, &rotary), "rotary table")) {
        replay_frequencies(golden_header(golden), &rotary, r);
        compare_table(golden_header(golden), &rotary, r);
    }
}
