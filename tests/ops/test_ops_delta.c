/* SPDX-License-Identifier: Apache-2.0 */
/* The delta net's recurrence: every table equals the scalar definition, any split of columns and any chunks of tokens
 * give the same, and the definition is the formula of SPEC section 7. */
#include "trial.h"

#include <math.h>
#include <string.h>

enum { CASES = 60 };

static size_t state_floats(const ops_delta *op)
{
    return op->value_heads * ops_state_blocks(op->dim) * op->dim * OPS_STATE_COLUMNS;
}

/* A state as the model keeps it: zeros in columns that are not there. */
static float *random_state(trial *t, const ops_delta *op)
{
    float *s = trial_input(t, state_floats(op), 2);
    const size_t blocks = ops_state_blocks(op->dim), present = op->dim - (blocks - 1) * OPS_STATE_COLUMNS;
    for (size_t row = 0; row < state_floats(op) / OPS_STATE_COLUMNS; row++)
        for (size_t c = present; row / op->dim % blocks == blocks - 1 && c < OPS_STATE_COLUMNS; c++)
            s[row * OPS_STATE_COLUMNS + c] = 0.0f;
    return s;
}

static ops_delta random_delta(trial *t, size_t tokens)
{
    ops_delta op = {.tokens = tokens, .key_heads = trial_size(t, 1, 3)};
    op.value_heads = op.key_heads * trial_size(t, 1, 3);
    op.dim = random_chance(&t->random, 2) ? 32 * trial_size(t, 1, 4) : trial_size(t, 1, 100);
    op.stride = (2 * op.key_heads + op.value_heads) * op.dim + trial_size(t, 0, 5);
    op.q = trial_input(t, tokens * op.stride, 0);
    op.k = op.q + op.key_heads * op.dim;
    op.v = op.k + op.key_heads * op.dim;
    op.kq = trial_input(t, tokens * op.key_heads, 0);
    op.decay = trial_input(t, tokens * op.value_heads, 0);
    op.beta = trial_input(t, tokens * op.value_heads, 0);
    op.before = random_state(t, &op);
    return op;
}

static void compare_delta(trial *t, ops_delta op)
{
    const size_t units = op.value_heads * ops_state_blocks(op.dim);
    const trial_pair out = trial_output(t, op.tokens * op.value_heads * op.dim, 0);
    const trial_pair after = trial_output(t, state_floats(&op), 0);
    op.out = out.expected;
    op.after = after.expected;
    t->scalar->delta(&op, (ops_range){0, units});
    op.out = out.actual;
    op.after = after.actual;
    if (random_chance(&t->random, 2))
        op.before = memcpy(after.actual, op.before, after.count * sizeof(float));
    EACH_PIECE(t, units, t->table->delta(&op, range));
    trial_compare(t, "out", out);
    trial_compare(t, "after", after);
}

static void one_delta(trial *t)
{
    compare_delta(t, random_delta(t, trial_size(t, 1, 6)));
}

/* More than a table takes at a time. */
static void many_tokens(trial *t)
{
    compare_delta(t, random_delta(t, trial_size(t, 60, 200)));
}

static void test_delta(void **state)
{
    (void)state;
    each_trial("delta", CASES, one_delta);
    each_trial("delta, many tokens", CASES / 10, many_tokens);
}

static ops_delta tokens_of(ops_delta op, size_t first, size_t tokens)
{
    op.q += first * op.stride;
    op.k += first * op.stride;
    op.v += first * op.stride;
    op.kq += first * op.key_heads;
    op.decay += first * op.value_heads;
    op.beta += first * op.value_heads;
    op.out += first * op.value_heads * op.dim;
    op.tokens = tokens;
    return op;
}

static void one_delta_in_chunks(trial *t)
{
    ops_delta op = random_delta(t, trial_size(t, 2, 8));
    const ops_range all = {0, op.value_heads * ops_state_blocks(op.dim)};
    const trial_pair out = trial_output(t, op.tokens * op.value_heads * op.dim, 0);
    const trial_pair after = trial_output(t, state_floats(&op), 0);
    op.out = out.expected;
    op.after = after.expected;
    t->table->delta(&op, all);
    op.out = out.actual;
    op.after = after.actual;
    for (size_t first = 0, tokens; first < op.tokens; first += tokens) {
        tokens = trial_size(t, 1, op.tokens - first);
        ops_delta chunk = tokens_of(op, first, tokens);
        t->table->delta(&chunk, all);
        op.before = op.after;
    }
    trial_compare(t, "out", out);
    trial_compare(t, "after", after);
}

static void test_delta_in_chunks(void **state)
{
    (void)state;
    each_trial("delta in chunks", CASES, one_delta_in_chunks);
}

/* ---- the formula ---- */

enum { DIM = 48, TOKENS = 40 };

/* S = decay S; d = beta (v - S^T k); S = S + k d^T; o = S^T q, in binary64. */
static void naive_token(double s[DIM][DIM], const float *q, const float *k, const float *v, double decay, double beta,
                        double *out)
{
    for (int c = 0; c < DIM; c++) {
        double known = 0.0;
        for (int i = 0; i < DIM; i++) {
            s[i][c] *= decay;
            known += s[i][c] * k[i];
        }
        out[c] = 0.0;
        for (int i = 0; i < DIM; i++) {
            s[i][c] += k[i] * beta * (v[c] - known);
            out[c] += s[i][c] * q[i];
        }
    }
}

static void one_formula(trial *t)
{
    static double s[DIM][DIM];
    memset(s, 0, sizeof s);
    float *qkv = trial_input(t, (size_t)TOKENS * 3 * DIM, 0), kq[TOKENS], decay[TOKENS], beta[TOKENS];
    for (size_t i = 0; i < (size_t)TOKENS * 3 * DIM; i++)
        qkv[i] = random_float(&t->random, ORDINARY, 0);
    for (int i = 0; i < TOKENS; i++) {
        decay[i] = 0.5f + 0.5f * fabsf(random_float(&t->random, ORDINARY, 0));
        beta[i] = fabsf(random_float(&t->random, ORDINARY, 0));
    }
    const ops_unit unit = {qkv, qkv + DIM, 3 * DIM, 1, DIM, kq};
    t->table->unit(&unit, (ops_range){0, TOKENS});
    ops_delta op = {qkv, qkv + DIM, qkv + 2 * DIM, 3 * DIM, kq, decay, beta, NULL, TOKENS, 1, 1, DIM, NULL, NULL};
    float *state = trial_input(t, state_floats(&op), 0), *out = trial_input(t, (size_t)TOKENS * DIM, 0);
    op.before = op.after = memset(state, 0, state_floats(&op) * sizeof(float));
    op.out = out;
    t->table->delta(&op, (ops_range){0, ops_state_blocks(DIM)});
    for (int i = 0; i < TOKENS; i++) {
        const float *q = qkv + i * 3 * DIM;
        double expected[DIM];
        naive_token(s, q, q + DIM, q + 2 * DIM, (double)decay[i], (double)beta[i], expected);
        for (int c = 0; c < DIM; c++)
            if (!(fabs(expected[c] - (double)out[i * DIM + c]) < 1e-6))
                fail_msg("%s: token %d, column %d: %g instead of %g", t->table->isa, i, c, (double)out[i * DIM + c],
                         expected[c]);
    }
}

static void test_delta_is_the_formula(void **state)
{
    (void)state;
    each_trial("formula", 20, one_formula);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delta),
        cmocka_unit_test(test_delta_in_chunks),
        cmocka_unit_test(test_delta_is_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
