/* From a recorded case to inputs. That the inputs are the right ones is shown by the hashes that follow from them. */
#include "support.h"
#include "verify/golden_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char stage_text[] =
    "golden 1\nkind stage\nprofile bf16\nq_heads 4\nkv_heads 2\nhead_dim 8\nrotary_dim 4\nindex_heads 2\nindex_dim "
    "6\nbudget 8\n"
    "ratio 4\ntheta 10000000.0\nsections 1 1 0\neps 1e-06\nn 9\nanchor 50\nstream_index_q 1\nstream_raw_key 2\n"
    "stream_q_norm 3\nstream_k_norm 4\nstream_q 5\nstream_k 6\nstream_v 7\nq_scale 8\ntensor query_position i32 2\n50 "
    "58\nend\n";

static const char path_text[] =
    "golden 1\nkind canonical\ncase a\nkind path\nkv_type q8_0\nprofile f32\nq_heads 4\nkv_heads 2\nhead_dim "
    "8\nrotary_dim 4\n"
    "index_heads 2\nindex_dim 6\nbudget 8\nratio 4\ntheta 10000.0\nsections 1 1 0\neps 1e-06\nn 9\nanchor 7\nframe -3\n"
    "window 5\nyarn_factor 4.0\nyarn_original_max_position_embeddings 64\nfactor_bits 3fddb3d7\nstream_index_q 1\n"
    "stream_raw_key 2\nstream_q_norm 3\nstream_k_norm 4\nstream_q 5\nstream_k 6\nstream_v 7\nstream_main_q_norm 8\n"
    "stream_main_k_norm 9\nscale_index_q 2^0\nscale_raw_key 2^0\nscale_q 2^0\nscale_k 2^0\nscale_v 2^-3\nscale_v_odd "
    "2^4\n"
    "scale_main_q_norm 2^-2\nqueries 0 2 8 8\nend\n";

/* The text with `from` replaced by `to`, parsed. */
static golden_file *parse_changed(const char *text, const char *from, const char *to)
{
    golden_error error = {{0}};
    const char *at = strstr(text, from);
    assert_non_null(at);
    size_t before = (size_t)(at - text), size = strlen(text) - strlen(from) + strlen(to);
    char *changed = test_alloc(size + 1, 1);
    memcpy(changed, text, before);
    strcpy(changed + before, to);
    strcat(changed, at + strlen(from));
    golden_file *file = golden_parse(changed, size, "x.txt", &error);
    test_no_golden_error(&error);
    free(changed);
    return file;
}

static void stage_case_is_read(void **state)
{
    (void)state;
    golden_case c;
    golden_error error = {{0}};
    golden_file *file = parse_changed(stage_text, "x", "x");
    assert_true(golden_case_from_stage(golden_header(file), &c, &error));
    assert_true(c.final_qkv && c.has_attention && c.config.kv_type == QSA_KV_F32 &&
                c.config.profile == QSA_PROFILE_BF16 && c.config.yarn.factor == 0);
    assert_true(c.config.q_heads == 4 && c.config.head_dim == 8 && c.config.sections[1] == 1 &&
                c.config.theta == 1e7f && c.config.eps == 1e-6f);
    assert_true(c.queries == 2 && c.query[0] == 0 && c.query[1] == 8 && c.n == 9 && c.anchor == 50);
    assert_null(c.triples);
    assert_null(c.q_norm);
    for (uint64_t k = 0; k < 9 * 32; k++)
        assert_true(c.q[k] == golden_to_bf16(golden_value(5, k) * 8.0f));
    assert_true(c.index_q_norm[5] == 1.0f + golden_to_bf16(golden_value(3, 5) * 0.25f));
    golden_case_free(&c);
    golden_free(file);
}

static void path_case_is_read(void **state)
{
    (void)state;
    golden_case c;
    golden_error error = {{0}};
    golden_file *file = parse_changed(path_text, "x", "x");
    assert_true(golden_case_from_path(golden_record_at(file, 0), &c, &error));
    assert_true(!c.final_qkv && c.has_attention && c.config.kv_type == QSA_KV_Q8_0 &&
                c.config.profile == QSA_PROFILE_F32);
    const qsa_yarn *y = &c.config.yarn;
    assert_true(y->factor == 4 && y->original_context == 64 && y->beta_fast == 32 && y->beta_slow == 1 &&
                y->attention_factor == 0);
    assert_true(c.anchor == 7 && c.frame == -3 && c.window == 5 && c.queries == 4 && c.query[3] == 8);
    float factor = test_float(0x3fddb3d7);
    for (uint64_t k = 0; k < 9 * 16; k++) { /* rows of 16: even and odd tokens have scales of their own */
        float product = golden_value(7, k) * factor;
        assert_true(c.v[k] == product * (k / 16 % 2 ? 16.0f : 0.125f));
    }
    assert_true(c.q_norm[7] == 1.0f + golden_value(8, 7) * 0.25f);
    golden_case_free(&c);
    golden_free(file);
}

static void malformed_stage_cases_are_refused(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"kind stage", "kind model", "x.txt: neither a stage nor a ties file"},
        {"profile bf16", "profile f64", "x.txt: 'profile' must be f32 or bf16"},
        {"n 9\n", "n 0\n", "x.txt: line 15: 'n' must be an integer from 1 to 65536, not '0'"},
        {"q_heads 4", "q_heads 3",
         "x.txt: q_heads must be a multiple of kv_heads, budget of ratio, ratio a power of two"},
        {"ratio 4", "ratio 3", "x.txt: q_heads must be a multiple of kv_heads, budget of ratio, ratio a power of two"},
        {"rotary_dim 4", "rotary_dim 8", "x.txt: 'rotary_dim' must be even, and at most head_dim and index_dim"},
        {"sections 1 1 0", "sections 1 1", "x.txt: line 13: 'sections' has 2 words, number 3 is missing"},
        {"stream_v 7\n", "", "x.txt: no 'stream_v'"},
        {"stream_v 7\n", "stream_v -7\n",
         "x.txt: line 23: 'stream_v' must be an integer from 0 to 4294967295, not '-7'"},
        {"50 58", "50 59", "x.txt: 'query_position' 59: must ascend within the run"},
        {"50 58", "49 58", "x.txt: 'query_position' 49: must ascend within the run"},
        {"50 58", "55 55", "x.txt: 'query_position' 55: must ascend within the run"},
        {"i32 2\n50 58", "f32 1\n00000000", "x.txt: tensor 'query_position' must be i32"},
        {"kind stage", "kind ties", "x.txt: no 'index_q_raw'"},
        {"anchor 50", "anchor 50\ntensor rotary i32 1 3\n1 1 1", "x.txt: line 17: tensor 'rotary' must have 27 i32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        golden_case c;
        golden_error error = {{0}};
        golden_file *file = parse_changed(stage_text, cases[i][0], cases[i][1]);
        assert_false(golden_case_from_stage(golden_header(file), &c, &error));
        assert_string_equal(error.text, cases[i][2]);
        golden_free(file);
    }
}

static void inputs_of_more_than_a_gibibyte_are_refused(void **state)
{
    (void)state;
    golden_case c;
    golden_error error = {{0}};
    golden_file *file =
        parse_changed(path_text,
                      "index_heads 2\nindex_dim 6\nbudget 8\nratio 4\ntheta 10000.0\nsections 1 1 0\n"
                      "eps 1e-06\nn 9\n",
                      "index_heads 8\nindex_dim 1024\nbudget 8\nratio 4\ntheta 10000.0\nsections 1 1 0\n"
                      "eps 1e-06\nn 65536\n");
    assert_false(golden_case_from_path(golden_record_at(file, 0), &c, &error));
    assert_string_equal(error.text, "an input of 536870912 numbers is more than this reader takes");
    golden_free(file);
}

static void malformed_path_cases_are_refused(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"kind path", "kind stage", "a: not of kind path"},
        {"kv_type q8_0", "kv_type q4_0", "a: 'kv_type' must be f32, bf16, f16 or q8_0"},
        {"queries 0 2 8 8", "queries 0 2 8", "a: 'queries' must be pairs of offsets"},
        {"queries 0 2 8 8", "queries 0 2 2 8", "x.txt: line 41: 'queries' must be an integer from 3 to 8, not '2'"},
        {"queries 0 2 8 8", "queries 0 9", "x.txt: line 41: 'queries' must be an integer from 0 to 8, not '9'"},
        {"factor_bits 3fddb3d7", "factor_bits x",
         "x.txt: line 24: 'factor_bits' must be 1 to 16 hexadecimal digits, not 'x'"},
        {"frame -3\n", "", "x.txt: line 3: case a has no 'frame'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        golden_case c;
        golden_error error = {{0}};
        golden_file *file = parse_changed(path_text, cases[i][0], cases[i][1]);
        assert_false(golden_case_from_path(golden_record_at(file, 0), &c, &error));
        assert_string_equal(error.text, cases[i][2]);
        golden_free(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stage_case_is_read),
        cmocka_unit_test(path_case_is_read),
        cmocka_unit_test(malformed_stage_cases_are_refused),
        cmocka_unit_test(inputs_of_more_than_a_gibibyte_are_refused),
        cmocka_unit_test(malformed_path_cases_are_refused),
    };
    return cmocka_run_group_tests_name("golden_case", tests, NULL, NULL);
}
