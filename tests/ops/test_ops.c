/* SPDX-License-Identifier: Apache-2.0 */
/* Every operation of every table that runs here equals the scalar definition bit for bit: random shapes, any split of
 * the units, numbers of every kind, borders around all that is read and written. */
#include "trial.h"

#include <math.h>
#include <string.h>

enum { CASES = 150, MOST = 30 };

static const ops_range ALL_OF_ONE = {0, 1};

static void one_norm(trial *t)
{
    const size_t dim = trial_size(t, 1, 300), weight_rows = trial_size(t, 1, 5), rows = trial_size(t, 1, 12);
    const trial_pair out = trial_output(t, rows * dim, MOST);
    ops_norm op = {.x = trial_input(t, rows * dim, MOST), .weight = trial_input(t, weight_rows * dim, MOST)};
    op.dim = dim;
    op.weight_rows = weight_rows;
    op.eps = 1e-6f;
    op.out = out.expected;
    t->scalar->norm(&op, (ops_range){0, rows});
    op.out = out.actual;
    EACH_PIECE(t, rows, t->table->norm(&op, range));
    trial_compare(t, "out", out);
}

static void test_norm(void **state)
{
    (void)state;
    each_trial("norm", CASES, one_norm);
}

static void one_squash(trial *t)
{
    const size_t n = trial_size(t, 1, 700), streams = trial_size(t, 1, 6);
    const trial_pair x = trial_output(t, n, 8);
    t->scalar->squash(&(ops_squash){x.expected, streams}, (ops_range){0, n});
    const ops_squash op = {x.actual, streams};
    EACH_PIECE(t, n, t->table->squash(&op, range));
    trial_compare(t, "x", x);
}

static void test_squash(void **state)
{
    (void)state;
    each_trial("squash", CASES, one_squash);
}

static void one_mix(trial *t)
{
    const size_t dim = trial_size(t, 1, 700), streams = trial_size(t, 1, 6), tokens = trial_size(t, 1, 4);
    const size_t units = tokens * ops_pieces(dim);
    const trial_pair out = trial_output(t, tokens * dim, MOST);
    ops_mix op = {.u = trial_input(t, tokens * streams * dim, 8), .n = trial_input(t, tokens * streams * dim, MOST)};
    op.dim = dim;
    op.streams = streams;
    op.out = out.expected;
    t->scalar->mix(&op, (ops_range){0, units});
    op.out = out.actual;
    EACH_PIECE(t, units, t->table->mix(&op, range));
    trial_compare(t, "out", out);
}

static void test_mix(void **state)
{
    (void)state;
    each_trial("mix", CASES, one_mix);
}

static void one_residual(trial *t)
{
    const size_t dim = trial_size(t, 1, 300), streams = trial_size(t, 1, 6), tokens = trial_size(t, 1, 4);
    const size_t stride = streams + trial_size(t, 0, 3);
    const trial_pair residual = trial_output(t, tokens * streams * dim, MOST);
    ops_residual op = {.y = trial_input(t, tokens * dim, MOST), .gain = trial_input(t, tokens * stride, 6)};
    op.gain_stride = stride;
    op.dim = dim;
    op.streams = streams;
    op.residual = residual.expected;
    t->scalar->residual(&op, (ops_range){0, tokens * streams});
    op.residual = residual.actual;
    EACH_PIECE(t, tokens * streams, t->table->residual(&op, range));
    trial_compare(t, "residual", residual);
}

static void test_residual(void **state)
{
    (void)state;
    each_trial("residual", CASES, one_residual);
}

static ops_conv random_conv(trial *t, size_t tokens)
{
    ops_conv op = {.tokens = tokens, .channels = trial_size(t, 1, 100), .dilation = trial_size(t, 1, 3)};
    op.taps = random_chance(&t->random, 2) ? 4 : trial_size(t, 1, OPS_MOST_TAPS);
    op.x_stride = op.channels + trial_size(t, 0, 5);
    op.x = trial_input(t, op.tokens * op.x_stride, 8);
    op.tail = trial_input(t, (op.taps - 1) * op.dilation * op.channels, 8);
    op.weight = trial_input(t, op.taps * op.channels, 2);
    return op;
}

static void one_conv(trial *t)
{
    ops_conv op = random_conv(t, trial_size(t, 1, 9));
    const trial_pair out = trial_output(t, op.tokens * op.channels, MOST);
    op.out = out.expected;
    t->scalar->conv(&op, (ops_range){0, op.channels});
    op.out = out.actual;
    EACH_PIECE(t, op.channels, t->table->conv(&op, range));
    trial_compare(t, "out", out);
}

/* Two chunks, the second with the tail that the first leaves, give what one gives. */
static void one_conv_in_chunks(trial *t)
{
    ops_conv op = random_conv(t, trial_size(t, 2, 9));
    const size_t tail_floats = (op.taps - 1) * op.dilation * op.channels, first = trial_size(t, 1, op.tokens - 1);
    const trial_pair out = trial_output(t, op.tokens * op.channels, MOST), tail = trial_output(t, tail_floats, MOST);
    const ops_range all = {0, op.channels};
    op.out = out.expected;
    t->table->conv(&op, all);
    EACH_PIECE(t, op.channels, ops_conv_tail(&op, range, tail.expected));

    ops_conv chunk = op;
    chunk.tokens = first;
    chunk.out = out.actual;
    t->table->conv(&chunk, all);
    float *between = trial_input(t, tail_floats, MOST);
    ops_conv_tail(&chunk, all, between);
    chunk.tail = between;
    chunk.tokens = op.tokens - first;
    chunk.x += first * op.x_stride;
    chunk.out += first * op.channels;
    t->table->conv(&chunk, all);
    ops_conv_tail(&chunk, all, tail.actual);
    trial_compare(t, "out", out);
    trial_compare(t, "tail", tail);
}

static void test_conv(void **state)
{
    (void)state;
    each_trial("conv", CASES, one_conv);
    each_trial("conv in chunks", CASES, one_conv_in_chunks);
}

static void one_unit(trial *t)
{
    const size_t dim = trial_size(t, 1, 150), heads = trial_size(t, 1, 5), tokens = trial_size(t, 1, 4);
    const size_t stride = heads * dim + trial_size(t, 0, 4);
    const trial_pair q = trial_output(t, tokens * stride, MOST), k = trial_output(t, tokens * stride, MOST);
    const trial_pair kq = trial_output(t, tokens * heads, MOST);
    ops_unit op = {.q = q.expected, .k = k.expected, .stride = stride, .key_heads = heads, .dim = dim};
    op.kq = kq.expected;
    t->scalar->unit(&op, (ops_range){0, tokens * heads});
    op.q = q.actual;
    op.k = k.actual;
    op.kq = kq.actual;
    EACH_PIECE(t, tokens * heads, t->table->unit(&op, range));
    trial_compare(t, "q", q);
    trial_compare(t, "k", k);
    trial_compare(t, "kq", kq);
}

static void test_unit(void **state)
{
    (void)state;
    each_trial("unit", CASES, one_unit);
}

static void one_gates(trial *t)
{
    const size_t heads = trial_size(t, 1, 70), tokens = trial_size(t, 1, 4);
    const trial_pair decay = trial_output(t, tokens * heads, 7), beta = trial_output(t, tokens * heads, 7);
    ops_gates op = {.a = trial_input(t, heads, 4), .dt = trial_input(t, heads, 6), .heads = heads};
    op.decay = decay.expected;
    op.beta = beta.expected;
    t->scalar->gates(&op, (ops_range){0, tokens});
    op.decay = decay.actual;
    op.beta = beta.actual;
    EACH_PIECE(t, tokens, t->table->gates(&op, range));
    trial_compare(t, "decay", decay);
    trial_compare(t, "beta", beta);
}

static void test_gates(void **state)
{
    (void)state;
    each_trial("gates", CASES, one_gates);
}

static void one_gated_norm(trial *t)
{
    const size_t dim = trial_size(t, 1, 150), rows = trial_size(t, 1, 7);
    const trial_pair o = trial_output(t, rows * dim, MOST);
    ops_gated_norm op = {.z = trial_input(t, rows * dim, 8), .weight = trial_input(t, dim, MOST)};
    op.dim = dim;
    op.eps = 1e-6f;
    op.o = o.expected;
    t->scalar->gated_norm(&op, (ops_range){0, rows});
    op.o = o.actual;
    EACH_PIECE(t, rows, t->table->gated_norm(&op, range));
    trial_compare(t, "o", o);
}

static void test_gated_norm(void **state)
{
    (void)state;
    each_trial("gated_norm", CASES, one_gated_norm);
}

/* Logits of few values have many ties. */
static void one_route(trial *t)
{
    const size_t experts = trial_size(t, 1, 600), tokens = trial_size(t, 1, 3);
    const size_t used = trial_size(t, 1, experts < 12 ? experts : 12);
    float *logits = trial_input(t, tokens * experts, 6);
    for (size_t i = 0; random_chance(&t->random, 2) && i < tokens * experts; i++)
        logits[i] = (float)trial_size(t, 0, 5);
    const trial_pair weight = trial_output(t, tokens * used, MOST);
    int32_t expected[64], actual[64];
    ops_route op = {.logits = logits, .experts = experts, .used = used, .chosen = expected, .weight = weight.expected};
    t->scalar->route(&op, (ops_range){0, tokens});
    op.chosen = actual;
    op.weight = weight.actual;
    EACH_PIECE(t, tokens, t->table->route(&op, range));
    test_same_integers("chosen", expected, actual, tokens * used);
    trial_compare(t, "weight", weight);
}

static void test_route(void **state)
{
    (void)state;
    each_trial("route", CASES, one_route);
}

static void test_route_takes_the_best_and_of_equals_the_lower(void **state)
{
    (void)state;
    enum { EXPERTS = 40, USED = 4 };
    float logits[EXPERTS], weight[USED];
    int32_t chosen[USED];
    for (int i = 0; i < EXPERTS; i++)
        logits[i] = i % 5 == 3 ? 1.0f : 0.0f;
    logits[30] = 2.0f;
    const ops_route op = {.logits = logits, .experts = EXPERTS, .used = USED, .chosen = chosen, .weight = weight};
    const ops_table *table;
    for (size_t i = 0; (table = ops_available(i)) != NULL; i++) {
        table->route(&op, ALL_OF_ONE);
        test_same_integers(table->isa, (const int32_t[]){30, 3, 8, 13}, chosen, USED);
        const double total = 1.0 + 3.0 * exp(-1.0);
        for (int r = 0; r < USED; r++)
            assert_true(fabs(weight[r] - (r == 0 ? 1.0 : exp(-1.0)) / total) < 1e-6);
    }
}

static void one_swiglu(trial *t)
{
    const size_t dim = trial_size(t, 1, 150), rows = trial_size(t, 1, 5);
    const size_t gate_stride = dim + trial_size(t, 0, 9), up_stride = dim + trial_size(t, 0, 9);
    const trial_pair out = trial_output(t, rows * dim, MOST);
    ops_swiglu op = {.gate = trial_input(t, rows * gate_stride, 8), .up = trial_input(t, rows * up_stride, MOST)};
    op.gate_stride = gate_stride;
    op.up_stride = up_stride;
    op.dim = dim;
    op.out = out.expected;
    t->scalar->swiglu(&op, (ops_range){0, rows});
    op.out = out.actual;
    EACH_PIECE(t, rows, t->table->swiglu(&op, range));
    trial_compare(t, "out", out);
}

static void test_swiglu(void **state)
{
    (void)state;
    each_trial("swiglu", CASES, one_swiglu);
}

static void one_combine(trial *t)
{
    const size_t dim = trial_size(t, 1, 600), tokens = trial_size(t, 1, 4), used = trial_size(t, 1, 12);
    const size_t pairs = tokens * used, units = tokens * ops_pieces(dim);
    int32_t place[64];
    for (size_t i = 0; i < pairs; i++)
        place[i] = (int32_t)trial_size(t, 0, pairs - 1);
    const trial_pair out = trial_output(t, tokens * dim, MOST);
    ops_combine op = {.expert = trial_input(t, pairs * dim, MOST), .place = place, .used = used, .dim = dim};
    op.weight = trial_input(t, pairs, 0);
    op.shared = trial_input(t, tokens * dim, MOST);
    op.gate = trial_input(t, tokens, 6);
    op.out = out.expected;
    t->scalar->combine(&op, (ops_range){0, units});
    op.out = out.actual;
    EACH_PIECE(t, units, t->table->combine(&op, range));
    trial_compare(t, "out", out);
}

static void test_combine(void **state)
{
    (void)state;
    each_trial("combine", CASES, one_combine);
}

static void one_ngram_gate(trial *t)
{
    const size_t dim = trial_size(t, 1, 300), streams = trial_size(t, 1, 5), tokens = trial_size(t, 1, 3);
    const size_t rows = tokens * streams;
    const trial_pair out = trial_output(t, rows * dim, MOST);
    ops_ngram_gate op = {.key = trial_input(t, rows * dim, 3), .query = trial_input(t, rows * dim, 3)};
    op.value = trial_input(t, tokens * dim, MOST);
    op.dim = dim;
    op.streams = streams;
    op.out = out.expected;
    t->scalar->ngram_gate(&op, (ops_range){0, rows});
    op.out = out.actual;
    EACH_PIECE(t, rows, t->table->ngram_gate(&op, range));
    trial_compare(t, "out", out);
}

static void test_ngram_gate(void **state)
{
    (void)state;
    each_trial("ngram_gate", CASES, one_ngram_gate);
}

static void one_ngram_add(trial *t)
{
    const size_t n = trial_size(t, 1, 400);
    const trial_pair residual = trial_output(t, n, MOST);
    ops_ngram_add op = {trial_input(t, n, MOST), trial_input(t, n, MOST), residual.expected};
    t->scalar->ngram_add(&op, (ops_range){0, n});
    op.residual = residual.actual;
    EACH_PIECE(t, n, t->table->ngram_add(&op, range));
    trial_compare(t, "residual", residual);
}

static void test_ngram_add(void **state)
{
    (void)state;
    each_trial("ngram_add", CASES, one_ngram_add);
}

static void one_gate(trial *t)
{
    const size_t dim = trial_size(t, 1, 150), heads = trial_size(t, 1, 5), tokens = trial_size(t, 1, 3);
    const size_t head_stride = dim + trial_size(t, 0, 9), token_stride = heads * head_stride + trial_size(t, 0, 9);
    const trial_pair x = trial_output(t, tokens * heads * dim, MOST);
    ops_gate op = {.gate = trial_input(t, tokens * token_stride, 8), .heads = heads, .dim = dim};
    op.token_stride = token_stride;
    op.head_stride = head_stride;
    op.x = x.expected;
    t->scalar->gate(&op, (ops_range){0, tokens * heads});
    op.x = x.actual;
    EACH_PIECE(t, tokens * heads, t->table->gate(&op, range));
    trial_compare(t, "x", x);
}

static void test_gate(void **state)
{
    (void)state;
    each_trial("gate", CASES, one_gate);
}

/* A NaN among what an element depends on makes that element NaN: no clamp, comparison or table turns it into a number.
 */
static void test_nan_stays_visible(void **state)
{
    (void)state;
    enum { N = 37, AT = 20 };
    const ops_table *table;
    for (size_t i = 0; (table = ops_available(i)) != NULL; i++) {
        /* With a payload, which the arithmetic of exponents could mistake for a number. */
        const float nan = test_float(0x7fc12345);
        float x[N] = {0}, y[N], other[N];
        x[AT] = nan;
        memcpy(y, x, sizeof y);
        table->squash(&(ops_squash){y, 4}, (ops_range){0, N});
        assert_true(isnan(y[AT]) && !isnan(y[AT - 1]));
        memcpy(y, x, sizeof y);
        memcpy(other, x, sizeof other);
        table->gates(&(ops_gates){.a = (float[N]){0}, .dt = (float[N]){0}, .heads = N, .decay = y, .beta = other},
                     ALL_OF_ONE);
        assert_true(isnan(y[AT]) && isnan(other[AT]) && !isnan(y[AT - 1]));
        table->norm(&(ops_norm){.x = x, .weight = x, .dim = N, .weight_rows = 1, .eps = 1e-6f, .out = y}, ALL_OF_ONE);
        for (int j = 0; j < N; j++)
            assert_true(isnan(y[j]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm),       cmocka_unit_test(test_squash),
        cmocka_unit_test(test_mix),        cmocka_unit_test(test_residual),
        cmocka_unit_test(test_conv),       cmocka_unit_test(test_unit),
        cmocka_unit_test(test_gates),      cmocka_unit_test(test_gated_norm),
        cmocka_unit_test(test_route),      cmocka_unit_test(test_route_takes_the_best_and_of_equals_the_lower),
        cmocka_unit_test(test_swiglu),     cmocka_unit_test(test_combine),
        cmocka_unit_test(test_ngram_gate), cmocka_unit_test(test_ngram_add),
        cmocka_unit_test(test_gate),       cmocka_unit_test(test_nan_stays_visible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
