/* The oracle against what the reference model recorded: selected groups exactly, numbers within the tolerances of
 * tests/golden/README.md. */
#include "support.h"
#include "verify/oracle_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const stage_files[] = {
    "mrope_bf16",   "mrope_f32",     "ratio1_bf16",  "ratio1_f32",     "ratio2_bf16",   "ratio2_f32",   "ratio8_bf16",
    "ratio8_f32",   "real_anchor",   "real_bf16",    "real_f32",       "small_a1_bf16", "small_a1_f32", "small_a2_bf16",
    "small_a2_f32", "small_a3_bf16", "small_a3_f32", "small_a50_bf16", "small_a50_f32", "small_bf16",   "small_f32",
    "ties_bf16",    "ties_f32",      "yarn_bf16",    "yarn_f32",
};
enum { STAGE_FILES = sizeof stage_files / sizeof stage_files[0] };

/* One stage file, replayed. */
typedef struct fixture {
    golden_file *file;
    const golden_record *header;
    golden_case c;
    oracle_case oracle;
    golden_error error;
} fixture;

static void open_fixture(fixture *f, const char *folder, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "stage/%s.txt", name);
    memset(f, 0, sizeof *f);
    f->file = test_golden(folder, path);
    f->header = golden_header(f->file);
    golden_case_from_stage(f->header, &f->c, &f->error);
    test_no_golden_error(&f->error);
    oracle_refusal refusal;
    assert_true(oracle_case_open(&f->oracle, &f->c, &refusal));
}

static void close_fixture(fixture *f)
{
    test_no_golden_error(&f->error);
    oracle_case_close(&f->oracle);
    golden_case_free(&f->c);
    golden_free(f->file);
}

/* ---- rows ---- */

static void check_row(fixture *f, size_t query, const golden_ragged *selected)
{
    int t = (int)f->c.query[query], r = f->oracle.shape.ratio, size = 0;
    int32_t *expected = test_alloc((size_t)oracle_row_max(&f->oracle.shape), sizeof *expected);
    int32_t *row = test_alloc((size_t)oracle_row_max(&f->oracle.shape), sizeof *row);
    for (int32_t i = selected->begin[query]; i < selected->begin[query + 1]; i++)
        for (int k = 0; k < r; k++)
            expected[size++] = selected->values->integers[i] * r + k;
    for (int tail = (t + 1) / r * r; tail <= t; tail++)
        expected[size++] = tail;
    assert_int_equal(oracle_row(&f->oracle.run, t, row), size);
    test_same_integers("row", expected, row, (size_t)size);
    free(expected);
    free(row);
}

static void check_counts(fixture *f)
{
    const int32_t *groups = golden_integers(f->header, "query_groups", f->c.queries, &f->error);
    const int32_t *tail = golden_integers(f->header, "query_tail", f->c.queries, &f->error);
    const int32_t *fragile = golden_integers(f->header, "query_fragile", f->c.queries, &f->error);
    test_no_golden_error(&f->error);
    for (size_t i = 0; i < f->c.queries; i++) {
        int t = (int)f->c.query[i];
        assert_int_equal(oracle_end_group(&f->oracle.run, t), groups[i]);
        assert_int_equal((t + 1) % f->oracle.shape.ratio, tail[i]);
        assert_int_equal(fragile[i], 0);
    }
}

static void oracle_selects_the_recorded_groups(void **state)
{
    size_t queries = 0;
    for (int i = 0; i < STAGE_FILES; i++) {
        fixture f;
        open_fixture(&f, *state, stage_files[i]);
        golden_ragged selected = golden_find_ragged(f.header, "selected", f.c.queries, &f.error);
        test_no_golden_error(&f.error);
        for (size_t query = 0; query < f.c.queries; query++)
            check_row(&f, query, &selected);
        if (f.c.has_attention)
            check_counts(&f);
        queries += f.c.queries;
        close_fixture(&f);
    }
    assert_int_equal(queries, 6104 + 2 * 300); /* the reference's, and the ties */
}

/* ---- numbers ---- */

/* f32: within 4e-6. bf16: equal, but for a neighbouring bf16 in one element of 1,000. */
static void check_keys(const fixture *f, const char *what, const float *expected, const float *actual, size_t count,
                       size_t *neighbours)
{
    if (!f->oracle.shape.index_bf16) {
        test_close_floats(what, expected, actual, count, 4e-6);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        int32_t apart = (int32_t)((test_bits(expected[i]) >> 16) - (test_bits(actual[i]) >> 16));
        if (abs(apart) > 1)
            fail_msg("%s[%zu]: expected %g, found %g", what, i, (double)expected[i], (double)actual[i]);
        *neighbours += apart != 0;
    }
}

static void check_pooled(fixture *f)
{
    const golden_tensor *groups = golden_find_tensor(f->header, "pooled_group", &f->error);
    test_no_golden_error(&f->error);
    size_t dim = (size_t)f->oracle.shape.index_dim, neighbours = 0;
    const float *pooled = golden_floats(f->header, "pooled", groups->count * dim, &f->error);
    test_no_golden_error(&f->error);
    for (size_t i = 0; i < groups->count; i++) {
        const float *ours = f->oracle.run.pooled + (size_t)groups->integers[i] * dim;
        check_keys(f, "pooled", pooled + i * dim, ours, dim, &neighbours);
    }
    assert_true(neighbours * 1000 <= groups->count * dim);
}

static void check_index_q(fixture *f)
{
    const golden_tensor *positions = golden_find_tensor(f->header, "index_q_position", &f->error);
    test_no_golden_error(&f->error);
    size_t size = (size_t)f->oracle.shape.index_heads * f->oracle.shape.index_dim, neighbours = 0;
    const float *index_q = golden_floats(f->header, "index_q", positions->count * size, &f->error);
    test_no_golden_error(&f->error);
    for (size_t i = 0; i < positions->count; i++) {
        size_t t = (size_t)(positions->integers[i] - f->c.anchor);
        check_keys(f, "index_q", index_q + i * size, f->oracle.run.index_q + t * size, size, &neighbours);
    }
    assert_true(neighbours * 1000 <= positions->count * size);
}

/* Relative to the largest score of the file; in bf16 one value of 200 may be 1e-3 off. */
static void check_scores(fixture *f)
{
    const golden_tensor *positions = golden_find_tensor(f->header, "score_position", &f->error);
    test_no_golden_error(&f->error);
    golden_ragged recorded = golden_find_ragged(f->header, "score", positions->count, &f->error);
    test_no_golden_error(&f->error);
    const float *expected = recorded.values->floats;
    float *ours = test_alloc(recorded.values->count, sizeof *ours);
    double largest = 0;
    size_t outliers = 0;
    for (size_t i = 0; i < positions->count; i++) {
        int t = (int)(positions->integers[i] - f->c.anchor);
        assert_int_equal(recorded.begin[i + 1] - recorded.begin[i], oracle_end_group(&f->oracle.run, t));
        oracle_scores(&f->oracle.run, t, ours + recorded.begin[i]);
    }
    for (size_t i = 0; i < recorded.values->count; i++)
        largest = fmax(largest, expected[i]);
    for (size_t i = 0; i < recorded.values->count; i++)
        outliers += fabs((double)expected[i] - ours[i]) > 4e-6 * largest;
    test_close_floats("score", expected, ours, recorded.values->count,
                      (f->oracle.shape.index_bf16 ? 1e-3 : 4e-6) * largest);
    assert_true(outliers * 200 <= recorded.values->count);
    free(ours);
}

static void check_outputs(fixture *f)
{
    const golden_tensor *positions = golden_find_tensor(f->header, "output_position", &f->error);
    size_t dims = (size_t)golden_integer_within(f->header, "output_dims", 0, 1, f->oracle.shape.head_dim, &f->error);
    test_no_golden_error(&f->error);
    size_t heads = (size_t)f->oracle.shape.q_heads, dim = (size_t)f->oracle.shape.head_dim;
    size_t count = positions->count * heads * dims;
    const float *exact = golden_floats(f->header, "output_exact", count, &f->error);
    const float *reference = golden_floats(f->header, "output_reference", count, &f->error);
    test_no_golden_error(&f->error);
    float *ours = test_alloc(heads * dim, sizeof *ours);
    for (size_t i = 0; i < positions->count; i++) {
        oracle_output(&f->oracle.run, (int)(positions->integers[i] - f->c.anchor), ours);
        for (size_t head = 0; head < heads; head++) {
            size_t at = (i * heads + head) * dims;
            test_close_floats("output_exact", exact + at, ours + head * dim, dims, 1e-5);
            test_close_floats("output_reference", reference + at, ours + head * dim, dims,
                              f->oracle.shape.index_bf16 ? 4e-2 : 2e-5);
        }
    }
    free(ours);
}

static void oracle_is_within_the_tolerances(void **state)
{
    for (int i = 0; i < STAGE_FILES; i++) {
        fixture f;
        open_fixture(&f, *state, stage_files[i]);
        if (f.c.has_attention) {
            check_pooled(&f);
            check_index_q(&f);
            check_scores(&f);
            check_outputs(&f);
        }
        close_fixture(&f);
    }
}

/* ---- rotary tables ---- */

static void check_frequencies(const golden_record *header, const oracle_shape *shape)
{
    golden_error error = {{0}};
    float frequencies[512];
    const float *recorded = golden_floats(header, "inv_freq", (size_t)shape->rotary_dim / 2, &error);
    test_no_golden_error(&error);
    oracle_frequencies(shape, frequencies);
    test_same_floats("inv_freq", recorded, frequencies, (size_t)shape->rotary_dim / 2);
    assert_true(fabs(oracle_attention_factor(shape) - golden_number(header, "attention_factor", 0, &error)) < 1e-7);
    test_no_golden_error(&error);
}

static void oracle_has_the_reference_frequencies(void **state)
{
    for (int i = 0; i < STAGE_FILES; i++) {
        fixture f;
        open_fixture(&f, *state, stage_files[i]);
        if (f.c.has_attention)
            check_frequencies(f.header, &f.oracle.shape);
        close_fixture(&f);
    }
}

static void check_rope(const golden_record *header)
{
    golden_case c;
    golden_error error = {{0}};
    golden_case_shape(header, &c, &error);
    test_no_golden_error(&error);
    oracle_shape shape = oracle_case_shape(&c);
    check_frequencies(header, &shape);
    size_t pairs = c.config.rotary_dim / 2, rows = 9;
    const int32_t *triples = golden_integers(header, "triples", rows * 3, &error);
    const float *cosines = golden_floats(header, "cos", rows * pairs, &error);
    const float *sines = golden_floats(header, "sin", rows * pairs, &error);
    const float *cosines_bf16 = golden_floats(header, "cos_bf16", rows * pairs, &error);
    const float *sines_bf16 = golden_floats(header, "sin_bf16", rows * pairs, &error);
    test_no_golden_error(&error);
    for (size_t row = 0; row < rows; row++) {
        float table[128];
        oracle_cos_sin(&shape, &triples[3 * row], table);
        for (size_t i = 0; i < pairs; i++) {
            float cosine = oracle_to_bf16(table[2 * i]), sine = oracle_to_bf16(table[2 * i + 1]);
            test_close_floats("cos", &cosines[row * pairs + i], &table[2 * i], 1, 2.5e-7);
            test_close_floats("sin", &sines[row * pairs + i], &table[2 * i + 1], 1, 2.5e-7);
            test_same_floats("cos_bf16", &cosines_bf16[row * pairs + i], &cosine, 1);
            test_same_floats("sin_bf16", &sines_bf16[row * pairs + i], &sine, 1);
        }
    }
}

static void oracle_has_the_recorded_cos_and_sin(void **state)
{
    static const char *const files[] = {"stage/rope_plain.txt", "stage/rope_yarn.txt"};
    for (int i = 0; i < 2; i++) {
        golden_file *file = test_golden(*state, files[i]);
        check_rope(golden_header(file));
        golden_free(file);
    }
}

int main(void)
{
    char *folder = (char[]){QSA_GOLDEN_DIR};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(oracle_selects_the_recorded_groups, folder),
        cmocka_unit_test_prestate(oracle_is_within_the_tolerances, folder),
        cmocka_unit_test_prestate(oracle_has_the_reference_frequencies, folder),
        cmocka_unit_test_prestate(oracle_has_the_recorded_cos_and_sin, folder),
    };
    return cmocka_run_group_tests_name("oracle_stage", tests, NULL, NULL);
}
