/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/model_case.h"

#include "console/memory.h"

#include <stdio.h>
#include <stdlib.h>

bool model_case_readable(model_case *m)
{
    return replay_readable(&m->error, m->r);
}

bool model_case_ok(model_case *m, qsa_status status)
{
    if (status != QSA_OK)
        report_differ(m->r, "%s: %s", qsa_status_name(status), qsa_engine_error());
    return status == QSA_OK;
}

const char *entry_name(const sequence *s, const char *name, char buffer[MODEL_CASE_NAME_BYTES])
{
    snprintf(buffer, MODEL_CASE_NAME_BYTES, "%s%s", s->prefix, name);
    return buffer;
}

const char *layer_name(const sequence *s, uint32_t layer, const char *name, char buffer[MODEL_CASE_NAME_BYTES])
{
    snprintf(buffer, MODEL_CASE_NAME_BYTES, "%slayer%u_%s", s->prefix, layer, name);
    return buffer;
}

/* ---- the model ---- */

static bool exists(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file)
        fclose(file);
    return file != NULL;
}

/* The file of the key `file`; else NAME-f32.gguf; else NAME-bf16.gguf. A bf16 replay takes NAME-bf16.gguf. */
static char *model_path(model_case *m, const golden_folder *folder, const char *file, bool bf16)
{
    if (golden_has(m->header, "file")) {
        const char *named = golden_word(m->header, "file", 0, &m->error);
        return named ? replay_sibling(folder, file, named, "") : NULL;
    }
    const char *name = golden_word(m->header, "model", 0, &m->error);
    if (!name)
        return NULL;
    char *path = replay_sibling(folder, file, name, "-f32.gguf");
    if (exists(path) && !bf16)
        return path;
    free(path);
    return replay_sibling(folder, file, name, "-bf16.gguf");
}

static bool open_model(model_case *m, const golden_folder *folder, const char *file, bool bf16)
{
    qsa_model_options options;
    qsa_model_options_init(&options);
    options.weights = QSA_WEIGHTS_F32;
    char *path = model_path(m, folder, file, bf16);
    bool is_open = model_case_readable(m) && model_case_ok(m, qsa_model_open(path, &options, &m->model));
    free(path);
    if (!is_open)
        return false;
    qsa_model_get_info(m->model, &m->info);
    return report_call(m->r, qsa_rotary_init(&m->info.qsa, &m->rotary), "rotary table");
}

/* ---- sequences ---- */

/* Without the tensor qsa_position: the last token of the prompt. */
static void read_points(model_case *m, sequence *s)
{
    char name[MODEL_CASE_NAME_BYTES];
    const golden_tensor *points = NULL;
    if (golden_has(m->header, entry_name(s, "qsa_position", name)))
        points = golden_find_tensor(m->header, name, &m->error);
    s->n_points = points && points->integers ? points->count : 1;
    s->points = memory_new(s->n_points, sizeof *s->points);
    for (size_t i = 0; i < s->n_points; i++)
        s->points[i] = points && points->integers ? (uint32_t)points->integers[i] : (uint32_t)s->ids->count - 1;
}

static void read_sequence(model_case *m, const char *prefix)
{
    sequence *s = &m->sequences[m->count];
    char name[MODEL_CASE_NAME_BYTES];
    *s = (sequence){.n = 0};
    snprintf(s->prefix, sizeof s->prefix, "%s", prefix);
    s->ids = golden_find_tensor(m->header, entry_name(s, "ids", name), &m->error);
    if (s->ids && (!s->ids->integers || s->ids->count == 0))
        golden_fail(&m->error, "tensor '%s' must be i32 and hold a token", name);
    if (m->error.text[0])
        return;
    if (golden_has(m->header, entry_name(s, "first_position", name)))
        s->anchor = golden_integer_within(m->header, name, 0, 0, INT32_MAX, &m->error);
    if (golden_has(m->header, entry_name(s, "next", name))) {
        const golden_tensor *next = golden_find_tensor(m->header, name, &m->error);
        s->next = next ? next->integers : NULL;
        s->n_next = s->next ? next->count : 0;
    }
    read_points(m, s);
    m->count++;
}

static bool read_sequences(model_case *m)
{
    char prefix[16], name[MODEL_CASE_NAME_BYTES];
    if (golden_has(m->header, "ids"))
        read_sequence(m, "");
    for (int i = 0; i < MODEL_CASE_SEQUENCES - 1; i++) {
        snprintf(prefix, sizeof prefix, "seq%d_", i);
        snprintf(name, sizeof name, "%sids", prefix);
        if (golden_has(m->header, name))
            read_sequence(m, prefix);
    }
    if (m->count == 0)
        golden_fail(&m->error, "no tensor 'ids' or 'seq0_ids'");
    return model_case_readable(m);
}

/* ---- a case ---- */

bool model_case_open(model_case *m, const golden_folder *folder, const char *file, bool bf16)
{
    return open_model(m, folder, file, bf16) && read_sequences(m);
}

void model_case_close(model_case *m)
{
    for (size_t i = 0; i < m->count; i++) {
        qsa_session_close(m->sequences[i].session);
        free(m->sequences[i].points);
    }
    qsa_context_destroy(m->context);
    qsa_model_close(m->model);
}
