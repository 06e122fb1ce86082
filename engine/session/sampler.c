/* SPDX-License-Identifier: Apache-2.0 */
#include "session/sampler.h"

#include "base/error.h"
#include "base/splitmix64.h"
#include "ops/ops.h"

#include <assert.h>
#include <fenv.h>
#include <math.h>
#include <stdlib.h>

enum { MAX_VOCABULARY = 1 << 24 };
static const float MAX_TEMPERATURE = 1000.0f;

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
    candidate *candidates; /* [vocabulary] */
    uint32_t heap_count;
    float largest; /* logit */
};

/* ---- options ---- */

void qsa_sampler_options_init(qsa_sampler_options *options)
{
    *options = (qsa_sampler_options){.size_bytes = sizeof *options, .top_p = 1.0f};
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
    return QSA_OK;
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
    qsa_sampler *sampler = calloc(1, sizeof *sampler);
    candidate *candidates = calloc(vocabulary, sizeof *candidates);
    if (!sampler || !candidates) {
        free(sampler);
        free(candidates);
        return engine_fail(QSA_E_MEMORY, "no memory for a sampler of %u tokens", vocabulary);
    }
    sampler->options = o;
    sampler->vocabulary = vocabulary;
    sampler->state = o.seed;
    sampler->candidates = candidates;
    *out_sampler = sampler;
    return QSA_OK;
}

void qsa_sampler_destroy(qsa_sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->candidates);
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
    for (uint32_t i = 0; i < sampler->vocabulary; i++)
        sampler->candidates[i] = (candidate){logits[i], (int32_t)i};
    sampler->heap_count = sampler->vocabulary;
    for (uint32_t index = sampler->vocabulary / 2; index-- > 0;)
        sift_down(sampler->candidates, sampler->heap_count, index);
    sampler->largest = sampler->candidates[0].logit;
}

/* The candidate of a rank: 0 is the best. Pops as many from the heap as that takes. */
static candidate ranked(qsa_sampler *sampler, uint32_t rank)
{
    assert(rank < sampler->vocabulary && sampler->heap_count <= sampler->vocabulary);
    candidate *heap = sampler->candidates;
    while (sampler->vocabulary - sampler->heap_count <= rank) {
        candidate best = heap[0];
        heap[0] = heap[--sampler->heap_count];
        heap[sampler->heap_count] = best;
        sift_down(heap, sampler->heap_count, 0);
    }
    return heap[sampler->vocabulary - 1 - rank];
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
    kept all = {sampler->vocabulary, 0.0};
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
    assert(from.count > 0 && from.count <= sampler->vocabulary);
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

qsa_status qsa_sampler_next(qsa_sampler *sampler, const float *logits, int32_t *out_token)
{
    assert(sampler != NULL && logits != NULL && out_token != NULL);
    for (uint32_t i = 0; i < sampler->vocabulary; i++)
        if (!isfinite(logits[i]))
            return engine_fail(QSA_E_NONFINITE, "the logit of token %u is %g", i, (double)logits[i]);
    if (sampler->options.temperature == 0.0f) {
        *out_token = largest_id(logits, sampler->vocabulary);
        return QSA_OK;
    }
    fenv_t callers; /* another rounding mode must not choose another token */
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV);
    begin_order(sampler, logits);
    *out_token = choose(sampler, keep_top_p_min_p(sampler, keep_top_k(sampler)));
    fesetenv(&callers);
    return QSA_OK;
}
