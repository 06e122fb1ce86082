/* SPDX-License-Identifier: Apache-2.0 */
/* The defaults of sampling, and what a file recommends in their place. */
#include "model/sampling_keys.h"

#include "base/error.h"
#include "file/gguf_keys.h"

enum { MAX_COUNT = 1 << 24 };

/* Stands here, below the sampler, because a file changes these defaults. */
void qsa_sampler_options_init(qsa_sampler_options *options)
{
    *options = (qsa_sampler_options){
        .size_bytes = sizeof *options, .top_p = 1.0f, .repeat_penalty = 1.0f, .penalty_tokens = 64};
}

/* Below 0: the value that `negative` says. Beyond the sampler's range: refused. */
typedef struct sampling_key {
    const char *name;
    double least, most, negative;
} sampling_key;

enum { TEMP, TOP_K, TOP_P, MIN_P, REPEAT, LAST_N, SAMPLING_KEYS };

static const sampling_key keys[SAMPLING_KEYS] = {
    [TEMP] = {"general.sampling.temp", 0, 1000, 0},
    [TOP_K] = {"general.sampling.top_k", 0, MAX_COUNT, 0},
    [TOP_P] = {"general.sampling.top_p", 1e-6, 1, 1},
    [MIN_P] = {"general.sampling.min_p", 0, 1, 0},
    [REPEAT] = {"general.sampling.penalty_repeat", 1e-6, 100, 1},
    [LAST_N] = {"general.sampling.penalty_last_n", 0, MAX_COUNT, MAX_COUNT},
};

/* Leaves *value where the file says nothing. */
static qsa_status read_key(const gguf_file *file, const sampling_key *key, double *value, bool *any)
{
    double found;
    size_t n = 0;
    if (!gguf_file_has(file, key->name))
        return QSA_OK;
    if (gguf_file_numbers(file, key->name, &found, 1, &n) != QSA_OK || n != 1)
        return engine_fail(QSA_E_FORMAT, "%s is not one number", key->name);
    if (found < 0)
        found = key->negative;
    if (!(found >= key->least && found <= key->most))
        return engine_fail(QSA_E_FORMAT, "%s is %g; it must be in [%g, %g]", key->name, found, key->least, key->most);
    *value = found;
    *any = true;
    return QSA_OK;
}

qsa_status sampling_from_keys(const gguf_file *file, qsa_sampler_options *out_options, bool *out_any)
{
    qsa_sampler_options o;
    bool any = false;
    qsa_sampler_options_init(&o);
    double values[SAMPLING_KEYS] = {
        [TEMP] = (double)o.temperature,      [TOP_K] = o.top_k,
        [TOP_P] = (double)o.top_p,           [MIN_P] = (double)o.min_p,
        [REPEAT] = (double)o.repeat_penalty, [LAST_N] = o.penalty_tokens,
    };
    for (int i = 0; i < SAMPLING_KEYS; i++)
        ENGINE_TRY(read_key(file, &keys[i], &values[i], &any));
    o.temperature = (float)values[TEMP];
    o.top_k = (uint32_t)values[TOP_K];
    o.top_p = (float)values[TOP_P];
    o.min_p = (float)values[MIN_P];
    o.repeat_penalty = (float)values[REPEAT];
    o.penalty_tokens = (uint32_t)values[LAST_N];
    *out_options = o;
    *out_any = any;
    return QSA_OK;
}
