/* The exact bits of every stage, against the recorded hashes. The stages are compared in the order of the data flow:
 * the first that differs is the one at fault, and the numbers recorded for it are printed beside ours. */
#include "support.h"
#include "verify/oracle_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct stage {
    const char *name;    /* of hash_NAME */
    const char *numbers; /* key of its recorded first or last numbers; NULL: none */
    uint64_t hash;
    uint32_t ours[4];
} stage;

enum { COS_SIN, INDEX_Q, POOLED, SCORES, ROWS, K_STORED, V_STORED, MAIN_Q, OUTPUTS, STAGES };

typedef struct replay {
    stage stages[STAGES];
    size_t scores_total, rows_total;
} replay;

static void add_floats(stage *s, const float *numbers, size_t count)
{
    if (s->hash == GOLDEN_HASH_START)
        memcpy(s->ours, numbers, (count < 4 ? count : 4) * sizeof *numbers);
    s->hash = golden_hash_floats(s->hash, numbers, count);
}

static void add_row(stage *s, const int32_t *row, int size)
{
    for (int i = 0; i < size; i++)
        s->hash = golden_hash_u32(s->hash, (uint32_t)row[i]);
    for (int i = size < 4 ? 0 : size - 4, j = 0; i < size; i++, j++)
        s->ours[j] = (uint32_t)row[i];
}

static replay new_replay(void)
{
    static const char *const names[STAGES] = {"cos_sin",  "index_q",  "pooled", "scores", "rows",
                                              "k_stored", "v_stored", "main_q", "outputs"};
    static const char *const numbers[STAGES] = {NULL,          "first_index_q",  "first_pooled",   "last_scores",
                                                "last_row",    "first_k_stored", "first_v_stored", "first_main_q",
                                                "first_output"};
    replay r = {0};
    for (int i = 0; i < STAGES; i++)
        r.stages[i] = (stage){.name = names[i], .numbers = numbers[i], .hash = GOLDEN_HASH_START};
    return r;
}

static void replay_query(replay *r, const golden_case *c, const oracle_run *run, int t)
{
    const oracle_shape *s = run->shape;
    int candidates = oracle_end_group(run, t) - oracle_first_group(run, t);
    float *scores = test_alloc((size_t)candidates, sizeof *scores);
    int32_t *row = test_alloc((size_t)oracle_row_max(s), sizeof *row);
    oracle_scores(run, t, scores);
    int size = oracle_row(run, t, row);
    stage *of_scores = &r->stages[SCORES];
    memcpy(of_scores->ours, scores, (size_t)(candidates < 4 ? candidates : 4) * sizeof *scores);
    of_scores->hash = golden_hash_floats(of_scores->hash, scores, (size_t)candidates);
    add_row(&r->stages[ROWS], row, size);
    r->scores_total += (size_t)candidates;
    r->rows_total += (size_t)size;
    if (c->has_attention) {
        size_t q_size = (size_t)s->q_heads * s->head_dim;
        float *output = test_alloc(q_size, sizeof *output);
        oracle_attend(run, t, row, size, output);
        add_floats(&r->stages[MAIN_Q], run->main_q + (size_t)t * q_size, q_size);
        add_floats(&r->stages[OUTPUTS], output, q_size);
        free(output);
    }
    free(scores);
    free(row);
}

static void replay_run(replay *r, const golden_case *c, const oracle_run *run)
{
    size_t n = c->n, kv_size = (size_t)c->config.kv_heads * c->config.head_dim;
    add_floats(&r->stages[COS_SIN], run->cos_sin, n * c->config.rotary_dim);
    add_floats(&r->stages[INDEX_Q], run->index_q, n * c->config.index_heads * c->config.index_dim);
    add_floats(&r->stages[POOLED], run->pooled, n / c->config.ratio * c->config.index_dim);
    if (c->has_attention) {
        add_floats(&r->stages[K_STORED], run->k_stored, n * kv_size);
        add_floats(&r->stages[V_STORED], run->v_stored, n * kv_size);
    }
    for (size_t i = 0; i < c->queries; i++)
        replay_query(r, c, run, (int)c->query[i]);
}

static void fail_stage(const golden_record *record, const stage *s, uint64_t expected)
{
    char recorded[64] = "";
    for (size_t i = 0; s->numbers && i < golden_words(record, s->numbers); i++) {
        golden_error ignored = {{0}};
        strncat(recorded, " ", sizeof recorded - strlen(recorded) - 1);
        strncat(recorded, golden_word(record, s->numbers, i, &ignored), sizeof recorded - strlen(recorded) - 1);
    }
    const char *format = strcmp(s->name, "rows") == 0
                             ? "%s: %s differs: hash %016llx, expected %016llx; %s:%s; ours: %u %u %u %u"
                             : "%s: %s differs: hash %016llx, expected %016llx; %s:%s; ours: %08x %08x %08x %08x";
    char text[400];
    snprintf(text, sizeof text, format, golden_record_name(record), s->name, (unsigned long long)s->hash,
             (unsigned long long)expected, s->numbers ? s->numbers : "no numbers", recorded, s->ours[0], s->ours[1],
             s->ours[2], s->ours[3]);
    fail_msg("%s", text);
}

/* Returns how many hashes the record holds. */
static int compare(const golden_record *record, const replay *r)
{
    int compared = 0;
    golden_error error = {{0}};
    for (int i = 0; i < STAGES; i++) {
        char key[32];
        snprintf(key, sizeof key, "hash_%s", r->stages[i].name);
        if (golden_has(record, key)) {
            uint64_t expected = golden_hex(record, key, 0, &error);
            test_no_golden_error(&error);
            if (expected != r->stages[i].hash)
                fail_stage(record, &r->stages[i], expected);
            compared++;
        }
    }
    assert_int_equal(r->scores_total, golden_integer(record, "scores_total", 0, &error));
    assert_int_equal(r->rows_total, golden_integer(record, "rows_total", 0, &error));
    test_no_golden_error(&error);
    return compared;
}

/* `home` holds the inputs: the stage file's header, or the record itself. */
static int check_record(const golden_record *record, const golden_record *home)
{
    golden_case c;
    golden_error error = {{0}};
    bool ok = golden_is(record, "kind", "stage") ? golden_case_from_stage(home, &c, &error)
                                                 : golden_case_from_path(home, &c, &error);
    test_no_golden_error(&error);
    assert_true(ok);
    oracle_case oracle;
    oracle_refusal refusal;
    assert_true(oracle_case_open(&oracle, &c, &refusal));
    replay r = new_replay();
    replay_run(&r, &c, &oracle.run);
    int compared = compare(record, &r);
    oracle_case_close(&oracle);
    golden_case_free(&c);
    return compared;
}

static void canonical_stage_records_have_the_recorded_bits(void **state)
{
    golden_error error = {{0}};
    golden_file *canonical = test_golden(*state, "canonical.txt");
    int records = 0, hashes = 0;
    for (size_t i = 0; i < golden_record_count(canonical); i++) {
        const golden_record *record = golden_record_at(canonical, i);
        if (golden_is(record, "kind", "stage")) {
            golden_file *file = test_golden(*state, golden_word(record, "file", 0, &error));
            hashes += check_record(record, golden_header(file));
            records++;
            golden_free(file);
        }
    }
    assert_int_equal(records, golden_integer(golden_header(canonical), "stage_cases", 0, &error));
    assert_int_equal(records, 25);
    assert_int_equal(hashes, 25 * 6 - 2); /* the two ties files have no outputs */
    golden_free(canonical);
}

static void canonical_path_records_have_the_recorded_bits(void **state)
{
    golden_error error = {{0}};
    golden_file *canonical = test_golden(*state, "canonical.txt");
    int records = 0, hashes = 0;
    for (size_t i = 0; i < golden_record_count(canonical); i++) {
        const golden_record *record = golden_record_at(canonical, i);
        if (golden_is(record, "kind", "path")) {
            hashes += check_record(record, record);
            records++;
        }
    }
    assert_int_equal(records, golden_integer(golden_header(canonical), "path_cases", 0, &error));
    assert_int_equal(records, 38);
    assert_int_equal(hashes, 38 * STAGES);
    golden_free(canonical);
}

int main(void)
{
    char *folder = (char[]){QSA_GOLDEN_DIR};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(canonical_stage_records_have_the_recorded_bits, folder),
        cmocka_unit_test_prestate(canonical_path_records_have_the_recorded_bits, folder),
    };
    return cmocka_run_group_tests_name("oracle_canonical", tests, NULL, NULL);
}
