/* SPDX-License-Identifier: Apache-2.0 */
/* A layer of a step: announced once, then run phase by phase, in parts. */
#include "step/step.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static qsa_status check_tensors(const qsa_tensors *tensors, const qsa_output *out)
{
    if (tensors == NULL || out == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "layer: NULL argument");
    const qsa_strided *all[5] = {&tensors->k, &tensors->v, &tensors->raw_key, &tensors->q, &tensors->index_q};
    static const char *const names[5] = {"k", "v", "raw_key", "q", "index_q"};
    const int needed = out->data == NULL ? 3 : 5; /* a layer that only updates the cache needs no queries */
    for (int i = 0; i < needed; i++)
        if (all[i]->data == NULL)
            return qsa_fail(QSA_E_ARGUMENT, "layer: %s has no data", names[i]);
    return QSA_OK;
}

static bool layer_running(const qsa_step *step)
{
    return step->layer.announced && !step->layer_done[step->layer.io.layer];
}

qsa_status qsa_layer_begin(qsa_step *step, uint32_t layer, const qsa_tensors *tensors, const qsa_output *out)
{
    if (step == NULL || !step->cache->step_open)
        return qsa_fail(QSA_E_ORDER, "layer: no step is open");
    QSA_TRY(qsa_step_error(step));
    if (layer >= step->cache->layout.config.layers)
        return qsa_fail(QSA_E_ARGUMENT, "layer %" PRIu32 " of %" PRIu32, layer, step->cache->layout.config.layers);
    if (layer_running(step))
        return qsa_fail(QSA_E_ORDER, "layer %" PRIu32 " begins before layer %" PRIu32 " has run all phases", layer,
                        step->layer.io.layer);
    if (step->layer_done[layer])
        return qsa_fail(QSA_E_ORDER, "layer %" PRIu32 " is repeated", layer);
    QSA_TRY(check_tensors(tensors, out));
    qsa_layer_state *state = &step->layer;
    state->announced = true;
    state->io = (qsa_layer_io){.layer = layer, .tensors = *tensors, .out = *out};
    atomic_store(&state->parts, 0);
    for (int phase = 0; phase < QSA_PHASES; phase++)
        atomic_store(&state->parts_done[phase], 0);
    memset(state->next_phase, 0, QSA_MAX_PARTS);
    return QSA_OK;
}

/* The first part to arrive fixes the number of parts of the layer; a refused one fixes nothing. */
static qsa_status check_part(qsa_step *step, uint32_t phase, uint32_t part, uint32_t parts)
{
    qsa_layer_state *state = &step->layer;
    if (parts == 0 || parts > QSA_MAX_PARTS || part >= parts)
        return qsa_fail(QSA_E_ARGUMENT, "part %" PRIu32 " of %" PRIu32, part, parts);
    unsigned fixed = atomic_load(&state->parts);
    if ((fixed == 0 || fixed == parts) && (phase >= QSA_PHASES || state->next_phase[part] != phase ||
                                           (phase > 0 && atomic_load(&state->parts_done[phase - 1]) != parts)))
        return qsa_fail(QSA_E_ORDER, "layer %" PRIu32 ", part %" PRIu32 ": phase %" PRIu32 " is out of order",
                        state->io.layer, part, phase);
    if (fixed == 0)
        atomic_compare_exchange_strong(&state->parts, &fixed, parts);
    if (fixed != 0 && fixed != parts)
        return qsa_fail(QSA_E_ARGUMENT, "layer %" PRIu32 " runs in %u parts, not %" PRIu32, state->io.layer, fixed,
                        parts);
    state->next_phase[part]++;
    return QSA_OK;
}

/* Keeps the first failure. The detail is written before the status becomes visible. */
static void note_failure(qsa_device_failure *failure, qsa_status status)
{
    assert(status != QSA_OK && status < QSA_STATUS_COUNT);
    int none = QSA_OK, claimed = QSA_STATUS_COUNT;
    if (!atomic_compare_exchange_strong(&failure->status, &none, claimed))
        return;
    qsa_copy_detail(failure->detail, sizeof failure->detail);
    atomic_store(&failure->status, status);
}

static bool may_run(const qsa_step *step, uint32_t phase)
{
    if (atomic_load(&step->failure.status) != QSA_OK)
        return false;
    /* In phase 0 every part checks its input, so that the lowest refusal is found; later phases do nothing. */
    return phase == 0 || (!qsa_stores_only(step) && !qsa_refused(&step->refusals));
}

qsa_status qsa_layer_phase(qsa_step *step, uint32_t phase, uint32_t part, uint32_t parts)
{
    if (step == NULL || !step->cache->step_open || !layer_running(step))
        return qsa_fail(QSA_E_ORDER, "phase %" PRIu32 ": no layer is announced", phase);
    QSA_TRY(check_part(step, phase, part, parts));
    if (may_run(step, phase)) {
        qsa_store *store = step->cache->store;
        qsa_status status = store->operations->phase(store, &step->batch, &step->layer.io, phase, part, parts);
        if (status != QSA_OK)
            note_failure(&step->failure, status);
    }
    if (atomic_fetch_add(&step->layer.parts_done[phase], 1) + 1 == parts && phase == QSA_PHASES - 1)
        step->layer_done[step->layer.io.layer] = 1;
    return qsa_step_error(step);
}

qsa_status qsa_step_error(const struct qsa_step *step)
{
    int failed = atomic_load(&step->failure.status);
    if (failed == QSA_STATUS_COUNT) /* another part is just writing its detail */
        return qsa_fail(QSA_E_DEVICE, "the device failed");
    if (failed != QSA_OK)
        return qsa_fail((qsa_status)failed, "%s", step->failure.detail);
    return qsa_refusals_status(&step->refusals);
}

qsa_status qsa_step_layer(qsa_step *step, uint32_t layer, const qsa_tensors *tensors, const qsa_output *out)
{
    QSA_TRY(qsa_layer_begin(step, layer, tensors, out));
    for (uint32_t phase = 0; phase < QSA_PHASES; phase++)
        QSA_TRY(qsa_layer_phase(step, phase, 0, 1));
    return QSA_OK;
}

qsa_status qsa_step_selection(const qsa_step *step, uint32_t token, uint32_t *out_groups, uint32_t *out_n)
{
    if (step == NULL || !step->cache->step_open || !step->layer.announced || layer_running(step))
        return qsa_fail(QSA_E_ORDER, "selection: no finished layer");
    QSA_TRY(qsa_step_error(step)); /* a refused layer has no selection */
    if (qsa_stores_only(step))
        return qsa_fail(QSA_E_ORDER, "selection: layer %" PRIu32 " was stored without output", step->layer.io.layer);
    if (token >= step->batch.n_tokens || out_groups == NULL || out_n == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "selection: token %" PRIu32 " of %" PRIu32 ", or NULL", token,
                        step->batch.n_tokens);
    qsa_store *store = step->cache->store;
    return store->operations->selection(store, token, out_groups, out_n);
}
