/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing the next token: biases, penalties, order, filters, choice. */
#include "session/sampler.h"

#include "base/error.h"
#include "base/splitmix64.h"
#include "ops/ops.h"

#include <assert.h>
#include <fenv.h>
#include <math.h>
#include <stdlib.h>

enum { MAX_VOCABULARY = 1 << 24, MAX_PENALTY_TOKENS = 1 << 24 };
static const float MAX_TEMPERATURE = 1000.0f, MAX_PENALTY = 100.0f;

typedef struct candidate {
    float logit;
    int32_t id;
} candidate;

/* Candidates are sorted only as far as needed: [0, heap_count) is a heap with the best at index 0; the rest are those
 * popped so far, the best at the end. */
struct qsa_sampler {
    qsa_sampler_options options;
    uint32_t vocabulary;
    uint64_t state;
    float *changed;        /* [vocabulary] logits after biases and penalties; NULL: there are none */
    float *biases;         /* [vocabulary]; NULL: none */
    int32_t *recent;       /* [penalty_tokens] the last tokens, a ring; NULL: no penalties */
    uint32_t *occurrences; /* [vocabulary] among them */
    uint64_t accepted;     /* tokens that ever entered the ring */
    candidate *candidates; /* [vocabulary], of which `count` are used */
    uint32_t count, heap_count;
    float largest; /* logit */
};

/* ---- options ---- */

static qsa_status check_range(const char *name, float value)
{
    const float most = MAX_PENALTY;
    if (!(value >= -most && value <= most))
        return engine_fail(QSA_E_ARGUMENT, "%s is %g; it must be in [-%g, %g]", name, (double)value, (double)most,
                           (double)most);
    return QSA_OK;
}

static qsa_status check_penalties(const qsa_sampler_options *options)
{
    if (!(options->repeat_penalty > 0.0f && options->repeat_penalty <= MAX_PENALTY))
        return engine_fail(QSA_E_ARGUMENT, "repeat_penalty is %g; it must be in (0, %g]",
                           (double)options->repeat_penalty, (double)MAX_PENALTY);
    ENGINE_TRY(check_range("presence_penalty", options->presence_penalty));
    ENGINE_TRY(check_range("frequency_penalty", options->frequency_penalty));
    if (options->penalty_tokens > MAX_PENALTY_TOKENS)
        return engine_fail(QSA_E_ARGUMENT, "penalty_tokens is %u; at most %d", options->penalty_tokens,
                           MAX_PENALTY_TOKENS);
    return QSA_OK;
}

/* Negated comparisons, so that a NaN is refused too. */
static qsa_status check_options(const qsa_sampler_options *options)
{
    ENGINE_TRY(engine_check_size("qsa_sampler_options", options->size_bytes, sizeof *options));
    if (!(options->temperature >= 0.0f && options->temperature <= MAX_TEMPERATURE))
        return engine_fail(QSA_E_ARGUMENT, "temperature is %g; it must be in [0, %g]", (double)options->temperature,
                           (double)MAX_TEMPERATURE);
    if (!(options->top_p > 0.0f && options->top_p <= 1.0f))
        return engine_fail(QSA_E_ARGUMENT, "top_p is %g; it must be in (0, 1]", (double)options->top_p);
    if (!(options->min_p >= 0.0f && options->min_p <= 1.0f))
        return engine_fail(QSA_E_ARGUMENT, "min_p is %g; it must be in [0, 1]", (double)options->min_p);
    return check_penalties(options);
}

static qsa_status check_biases(const qsa_sampler_options *options, uint32_t vocabulary)
{
    for (size_t i = 0; i < options->bias_count; i++) {
        const qsa_logit_bias *b = &options->biases[i];
        if (b->token < 0 || (uint32_t)b->token >= vocabulary)
            return engine_fail(QSA_E_ARGUMENT, "a bias for token %d; the vocabulary has %u", b->token, vocabulary);
        if (!(b->bias < INFINITY))
            return engine_fail(QSA_E_ARGUMENT, "the bias of token %d is %g", b->token, (double)b->bias);
    }
    return QSA_OK;
}

/* ---- life ---- */

static bool has_penalties(const qsa_sampler_options *o)
{
    return o->penalty_tokens > 0 &&
           (o->repeat_penalty != 1.0f || o->presence_penalty != 0.0f || o->frequency_penalty != 0.0f);
}

/* False without memory. */
static bool allocate(qsa_sampler *s)
{
    const qsa_sampler_options *o = &s->options;
    const bool has = has_penalties(o);
    s->candidates = calloc(s->vocabulary, sizeof *s->candidates);
    if (o->bias_count > 0)
        s->biases = calloc(s->vocabulary, sizeof *s->biases);
    if (has) {
        s->recent = calloc(o->penalty_tokens, sizeof *s->recent);
        s->occurrences = calloc(s->vocabulary, sizeof *s->occurrences);
    }
    if (has || o->bias_count > 0)
        s->changed = calloc(s->vocabulary, sizeof *s->changed);
    return s->candidates && (!o->bias_count || s->biases) && (!has || (s->recent && s->occurrences)) &&
           (s->changed || !(has || o->bias_count));
}

qsa_status qsa_sampler_create(const qsa_sampler_options *options, uint32_t vocabulary, qsa_sampler **out_sampler)
{
    qsa_sampler_options o;
    qsa_sampler_options_init(&o);
    if (options != NULL)
        o = *options;
    ENGINE_TRY(check_options(&o));
    if (vocabulary == 0 || vocabulary > MAX_VOCABULARY)
        return engine_fail(QSA_E_ARGUMENT, "vocabulary is %u; it must be in [1, %d]", vocabulary, MAX_VOCABULARY);
    ENGINE_TRY(check_biases(&o, vocabulary));
    qsa_sampler *sampler = calloc(1, sizeof *sampler);
    if (sampler != NULL)
        *sampler = (qsa_sampler){.options = o, .vocabulary = vocabulary, .state = o.seed};
    if (sampler == NULL || !allocate(sampler)) {
        qsa_sampler_destroy(sampler);
        return engine_fail(QSA_E_MEMORY, "no memory for a sampler of %u tokens", vocabulary);
    }
    for (size_t i = 0; i < o.bias_count; i++)
        sampler->biases[o.biases[i].token] += o.biases[i].bias;
    sampler->options.biases = NULL; /* the caller's */
    *out_sampler = sampler;
    return QSA_OK;
}

void qsa_sampler_destroy(qsa_sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->candidates);
    free(sampler->biases);
    free(sampler->recent);
    free(sampler->occurrences);
    free(sampler->changed);
    free(sampler);
}

uint64_t qsa_sampler_state(const qsa_sampler *sampler)
{
    return sampler->state;
}

void qsa_sampler_set_state(qsa_sampler *sampler, uint64_t state)
{
    sampler->state = state;
}

static double draw(qsa_sampler *sampler)
{
    return (double)(splitmix64_next(&sampler->state) >> 11) * 0x1p-53;
}

/* ---- biases and penalties ---- */

static void accept_one(qsa_sampler *s, int32_t token)
{
    if (token < 0 || (uint32_t)token >= s->vocabulary)
        return;
    const uint32_t size = s->options.penalty_tokens;
    int32_t *slot = &s->recent[s->accepted % size];
    if (s->accepted >= size)
        s->occurrences[*slot]--;
    *slot = token;
    s->occurrences[token]++;
    s->accepted++;
}

void qsa_sampler_accept(qsa_sampler *sampler, const int32_t *tokens, size_t n)
{
    assert(sampler != NULL && (tokens != NULL || n == 0));
    if (sampler->recent != NULL)
        for (size_t i = 0; i < n; i++)
            accept_one(sampler, tokens[i]);
}

static float penalised(const qsa_sampler_options *o, float logit, uint32_t occurrences)
{
    logit = logit > 0.0f ? logit / o->repeat_penalty : logit * o->repeat_penalty;
    return logit - (o->presence_penalty + (float)occurrences * o->frequency_penalty);
}

/* The logits to choose by. */
static const float *change(qsa_sampler *s, const float *logits)
{
    if (s->changed == NULL)
        return logits;
    for (uint32_t i = 0; i < s->vocabulary; i++) {
        const float logit = s->biases == NULL ? logits[i] : logits[i] + s->biases[i];
        const uint32_t n = s->occurrences == NULL ? 0 : s->occurrences[i];
        s->changed[i] = n == 0 ? logit : penalised(&s->options, logit, n);
    }
    return s->changed;
}

/* ---- order ---- */

static bool is_better(candidate a, candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/* Moves the candidate at an index of the heap down until both its children are worse. */
static void sift_down(candidate *heap, uint32_t count, uint32_t index)
{
    candidate moved = heap[index];
    for (uint32_t child = 2 * index + 1; child < count; child = 2 * index + 1) {
        if (child + 1 < count && is_better(heap[child + 1], heap[child]))
            child++;
        if (is_better(moved, heap[child]))
            break;
        heap[index] = heap[child];
        index = child;
    }
    heap[index] = moved;
}

static void begin_order(qsa_sampler *sampler, const float *logits)
{
    sampler->count = 0;
    for (uint32_t i = 0; i < sampler->vocabulary; i++)
        if (logits[i] > -INFINITY)
            sampler->candidates[sampler->count++] = (candidate){logits[i], (int32_t)i};
    sampler->heap_count = sampler->count;
    for (uint32_t index = sampler->count / 2; index-- > 0;)
        sift_down(sampler->candidates, sampler->heap_count, index);
    sampler->largest = sampler->candidates[0].logit;
}

/* The candidate of a rank: 0 is the best. Pops as many from the heap as that takes. */
static candidate ranked(qsa_sampler *sampler, uint32_t rank)
{
    assert(rank < sampler->count && sampler->heap_count <= sampler->count);
    candidate *heap = sampler->candidates;
    while (sampler->count - sampler->heap_count <= rank) {
        candidate best = heap[0];
        heap[0] = heap[--sampler->heap_count];
        heap[sampler->heap_count] = best;
        sift_down(heap, sampler->heap_count, 0);
    }
    return heap[sampler->count - 1 - rank];
}

/* ---- choice ---- */

static double weight_of(const qsa_sampler *sampler, float logit)
{
    assert(sampler->options.temperature > 0.0f && logit <= sampler->largest);
    return ops_exp64(((double)logit - (double)sampler->largest) / (double)sampler->options.temperature);
}

/* The first `count` candidates in order, and the sum of their weights. */
typedef struct kept {
    uint32_t count;
    double weight;
} kept;

static kept keep_top_k(qsa_sampler *sampler)
{
    uint32_t top_k = sampler->options.top_k;
    kept all = {sampler->count, 0.0};
    if (top_k > 0 && top_k < all.count) {
        all.count = top_k;
        for (uint32_t rank = 0; rank < all.count; rank++)
            all.weight += weight_of(sampler, ranked(sampler, rank).logit);
        return all;
    }
    /* No top_k: the sum needs no sorting. */
    for (uint32_t i = 0; i < all.count; i++)
        all.weight += weight_of(sampler, sampler->candidates[i].logit);
    return all;
}

static kept keep_top_p_min_p(qsa_sampler *sampler, kept before)
{
    assert(before.count > 0);
    const qsa_sampler_options *options = &sampler->options;
    if (options->top_p == 1.0f && options->min_p == 0.0f)
        return before;
    kept now = {0, 0.0};
    while (now.count < before.count) {
        double weight = weight_of(sampler, ranked(sampler, now.count).logit);
        if (weight < (double)options->min_p)
            break;
        now.count++;
        now.weight += weight;
        if (options->top_p < 1.0f && now.weight >= (double)options->top_p * before.weight)
            break;
    }
    return now;
}

static int32_t choose(qsa_sampler *sampler, kept from)
{
    assert(from.count > 0 && from.count <= sampler->count);
    double target = draw(sampler) * from.weight, sum = 0.0;
    uint32_t rank = 0;
    /* The last candidate needs no test: rounding may leave the sum just below the target. */
    for (; rank + 1 < from.count; rank++) {
        sum += weight_of(sampler, ranked(sampler, rank).logit);
        if (sum > target)
            break;
    }
    return ranked(sampler, rank).id;
}

static int32_t largest_id(const float *logits, uint32_t count)
{
    assert(count > 0);
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

/* Greedy, or drawn. */
static int32_t choose_from(qsa_sampler *sampler, const float *logits)
{
    if (sampler->options.temperature == 0.0f)
        return largest_id(logits, sampler->vocabulary);
    begin_order(sampler, logits);
    return choose(sampler, keep_top_p_min_p(sampler, keep_top_k(sampler)));
}

static qsa_status check_logits(const qsa_sampler *sampler, const float *logits)
{
    for (uint32_t i = 0; i < sampler->vocabulary; i++)
        if (!isfinite(logits[i]))
            return engine_fail(QSA_E_NONFINITE, "the logit of token %u is %g", i, (double)logits[i]);
    return QSA_OK;
}

/* Biases and penalties of finite numbers can give +infinity or NaN only beyond all reason. */
static qsa_status check_changed(const qsa_sampler *sampler, const float *logits)
{
    bool is_left = false;
    for (uint32_t i = 0; i < sampler->vocabulary; i++) {
        if (!(logits[i] < INFINITY))
            return engine_fail(QSA_E_NONFINITE, "the logit of token %u with its bias is %g", i, (double)logits[i]);
        is_left = is_left || logits[i] > -INFINITY;
    }
    return is_left ? QSA_OK : engine_fail(QSA_E_ARGUMENT, "the biases leave no token");
}

qsa_status qsa_sampler_next(qsa_sampler *sampler, const float *logits, int32_t *out_token)
{
    assert(sampler != NULL && logits != NULL && out_token != NULL);
    ENGINE_TRY(check_logits(sampler, logits));
    fenv_t callers; /* another rounding mode must not choose another token */
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV);
    const float *changed = change(sampler, logits);
    const qsa_status status = check_changed(sampler, changed);
    if (status == QSA_OK) {
        *out_token = choose_from(sampler, changed);
        qsa_sampler_accept(sampler, out_token, 1);
    }
    fesetenv(&callers);
    return status;
}
