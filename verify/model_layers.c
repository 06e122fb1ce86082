/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/model_layers.h"

#include "console/memory.h"

#include <stdlib.h>
#include <string.h>

static const double LAYER_TOLERANCE = 3e-4;

/* A token of the batch being computed. */
typedef struct tapped {
    model_case *m;
    const sequence *s;
    uint32_t layer, token, offset; /* layer of the model, index in the batch, offset in the run */
    const qsa_norm_weights *norms;
    const qsa_tensors *tensors;
    const qsa_output *output;
    const qsa_step *step;
} tapped;

static void compare_selection(const tapped *t)
{
    char name[MODEL_CASE_NAME_BYTES];
    model_case *m = t->m;
    const size_t rows = t->s->ids->count + t->s->n_next;
    if (!golden_has(m->header, layer_name(t->s, t->layer, "selected", name)))
        return;
    golden_ragged recorded = golden_find_ragged(m->header, name, rows, &m->error);
    const int32_t *fragile = golden_integers(m->header, layer_name(t->s, t->layer, "fragile", name), rows, &m->error);
    if (m->error.text[0])
        return; /* reported at the end of the batch */
    uint32_t *groups = memory_new(m->info.qsa.budget / m->info.qsa.ratio, sizeof *groups), n;
    if (report_call(m->r, qsa_step_selection(t->step, t->token, groups, &n), "selection") && !fragile[t->offset])
        report_numbers(m->r, layer_name(t->s, t->layer, "selected, token", name), t->offset,
                       (const uint32_t *)recorded.values->integers + recorded.begin[t->offset],
                       (size_t)(recorded.begin[t->offset + 1] - recorded.begin[t->offset]), groups, n);
    free(groups);
}

/* One recorded tensor [points][heads][dim] at a point. */
static void compare_tensor(const tapped *t, const char *what, size_t point, const float *found, uint32_t heads,
                           uint32_t dim)
{
    char name[MODEL_CASE_NAME_BYTES];
    model_case *m = t->m;
    const size_t size = (size_t)heads * dim;
    if (!golden_has(m->header, layer_name(t->s, t->layer, what, name)))
        return;
    const float *recorded = golden_floats(m->header, name, t->s->n_points * size, &m->error);
    if (recorded)
        report_close(m->r, name, t->offset, recorded + point * size, found, size, LAYER_TOLERANCE);
}

static void gather(const qsa_strided *from, uint32_t token, uint32_t heads, uint32_t dim, float *out)
{
    for (uint32_t h = 0; h < heads; h++)
        memcpy(out + (size_t)h * dim, from->data + token * from->token_stride + h * from->head_stride,
               dim * sizeof *out);
}

/* q or k of the token, normed and rotated as libqsa does. */
static void gather_rotated(const tapped *t, const qsa_strided *from, uint32_t heads, const float *weight, float *out)
{
    float cos[QSA_MAX_DIM / 2], sin[QSA_MAX_DIM / 2];
    const qsa_config *c = &t->m->info.qsa;
    const int32_t position = (int32_t)(t->s->anchor + t->offset);
    gather(from, t->token, heads, c->head_dim, out);
    if (report_call(t->m->r, qsa_rotary_cos_sin(&t->m->rotary, (qsa_triple){position, position, position}, cos, sin),
                    "cos and sin"))
        report_call(t->m->r,
                    qsa_norm_rotate(out, heads, c->head_dim, weight, c->eps, t->m->rotary.pairs, cos, sin,
                                    QSA_PROFILE_F32, out),
                    "norm and rotate");
}

static void compare_point(const tapped *t, size_t point)
{
    const qsa_config *c = &t->m->info.qsa;
    const qsa_strided output = {t->output->data, t->output->token_stride, t->output->head_stride};
    const size_t main = (size_t)c->q_heads * c->head_dim, index = (size_t)c->index_heads * c->index_dim;
    float *x = memory_new(main > index ? main : index, sizeof *x);
    gather(&t->tensors->index_q, t->token, c->index_heads, c->index_dim, x);
    compare_tensor(t, "index_q", point, x, c->index_heads, c->index_dim);
    gather(&t->tensors->raw_key, t->token, 1, c->index_dim, x);
    compare_tensor(t, "raw_key", point, x, 1, c->index_dim);
    gather_rotated(t, &t->tensors->q, c->q_heads, t->norms->q, x);
    compare_tensor(t, "q", point, x, c->q_heads, c->head_dim);
    gather_rotated(t, &t->tensors->k, c->kv_heads, t->norms->k, x);
    compare_tensor(t, "k", point, x, c->kv_heads, c->head_dim);
    gather(&t->tensors->v, t->token, c->kv_heads, c->head_dim, x);
    compare_tensor(t, "v", point, x, c->kv_heads, c->head_dim);
    gather(&output, t->token, c->q_heads, c->head_dim, x);
    compare_tensor(t, "output", point, x, c->q_heads, c->head_dim);
    free(x);
}

static void compare_token(const tapped *t)
{
    compare_selection(t);
    for (size_t i = 0; i < t->s->n_points; i++)
        if (t->s->points[i] == t->offset)
            compare_point(t, i);
}

static bool find_norms(const model_case *m, uint32_t layer, qsa_norm_weights *out)
{
    uint32_t found;
    for (uint32_t i = 0; i < m->info.qsa.layers; i++)
        if (qsa_model_get_norms(m->model, i, &found, out) == QSA_OK && found == layer)
            return true;
    return false;
}

void model_layers_compare(void *user, uint32_t model_layer, uint32_t tokens, const qsa_tensors *tensors,
                          const qsa_output *output, const qsa_step *step)
{
    model_case *m = user;
    qsa_norm_weights norms;
    uint32_t first = 0;
    if (!find_norms(m, model_layer, &norms)) {
        report_differ(m->r, "layer %u of the model is no QSA layer", model_layer);
        return;
    }
    for (size_t i = 0; i < m->count && first < tokens; i++) {
        const sequence *s = &m->sequences[i];
        for (uint32_t k = 0; k < s->n; k++)
            compare_token(&(tapped){m, s, model_layer, first + k, s->fed + k, &norms, tensors, output, step});
        first += s->n;
    }
}
