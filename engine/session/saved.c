/* SPDX-License-Identifier: Apache-2.0 */
#include "session/saved.h"

#include "base/error.h"
#include "model/state.h"
#include "session/sampler.h"
#include "session/session.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { STATE_HEAD_BYTES = 2 * sizeof(uint64_t) }; /* tokens and has_logits, before the floats */
_Static_assert(offsetof(session_state, floats) == offsetof(session_state, tokens) + STATE_HEAD_BYTES, "file layout");

static uint64_t saved_floats(const qsa_context *c, uint64_t has_logits)
{
    return state_floats(&c->model->shape) + (has_logits ? c->model->shape.vocabulary : 0);
}

/* The same file with weights dequantised to f32 computes different states, so it has a different digest. */
static qsa_status digest_of(const qsa_model *model, uint64_t *out_digest)
{
    uint64_t digest = 0;
    ENGINE_TRY(gguf_file_digest(model->file, &digest));
    *out_digest = digest + (uint64_t)model->storage;
    return QSA_OK;
}

/* ---- save ---- */

static qsa_section section_of_state(const qsa_context *c, uint32_t number, const session_state *state)
{
    assert(number <= MAX_CHECKPOINTS + 1 && state->has_logits <= 1);
    const uint64_t bytes = STATE_HEAD_BYTES + saved_floats(c, state->has_logits) * sizeof(float);
    return (qsa_section){saved_tag_state(number), &state->tokens, bytes};
}

qsa_status qsa_session_save(const qsa_session *session, const qsa_sampler *sampler, const char *path)
{
    if (session == NULL || path == NULL)
        return engine_fail(QSA_E_ARGUMENT, "qsa_session_save: session or path is NULL");
    const qsa_context *c = session->context;
    ENGINE_TRY(context_idle(c));
    const session_checkpoints *checkpoints = &session->checkpoints;
    assert(checkpoints->n <= MAX_CHECKPOINTS + 1); /* what sections[] has room for, and the loader accepts */
    uint64_t digest = 0;
    ENGINE_TRY(digest_of(c->model, &digest));
    const saved_head head = {SAVED_VERSION, checkpoints->n, session->anchor, session->fed, sampler != NULL};
    const uint64_t random = sampler == NULL ? 0 : qsa_sampler_state(sampler);
    qsa_section sections[4 + MAX_CHECKPOINTS + 2];
    size_t n = 0;
    sections[n++] = (qsa_section){SAVED_TAG_HEAD, &head, sizeof head};
    sections[n++] = (qsa_section){SAVED_TAG_TOKENS, session->ids, session->now->tokens * sizeof *session->ids};
    sections[n++] = section_of_state(c, 0, session->now);
    for (uint32_t i = 0; i < checkpoints->n; i++)
        sections[n++] = section_of_state(c, i + 1, checkpoints->at[i]);
    if (sampler != NULL)
        sections[n++] = (qsa_section){SAVED_TAG_SAMPLER, &random, sizeof random};
    ENGINE_TRY_LIBRARY(qsa_snapshot_save(c->cache, &session->seq, 1, sections, n, digest, path));
    return QSA_OK;
}

/* ---- load: every section is checked before it is used ---- */

static qsa_status bad_part(uint32_t tag, const char *what)
{
    return engine_fail(QSA_E_FORMAT, "snapshot: part %c%c%c%c %s", (int)(tag & 255), (int)(tag >> 8 & 255),
                       (int)(tag >> 16 & 255), (int)(tag >> 24), what);
}

static const qsa_section *find_section(const qsa_snapshot *file, uint32_t tag)
{
    for (uint32_t i = 0; i < file->n_sections; i++)
        if (file->sections[i].tag == tag)
            return &file->sections[i];
    return NULL;
}

/* A required section of exactly `bytes` bytes. NULL: QSA_E_FORMAT, and the detail is set. */
static const qsa_section *find_part(const qsa_snapshot *file, uint32_t tag, uint64_t bytes)
{
    const qsa_section *section = find_section(file, tag);
    if (section == NULL) {
        (void)bad_part(tag, "is missing: the snapshot holds no engine session");
        return NULL;
    }
    if (section->size_bytes != bytes) {
        char what[80];
        snprintf(what, sizeof what, "has %" PRIu64 " bytes, expected %" PRIu64, section->size_bytes, bytes);
        (void)bad_part(tag, what);
        return NULL;
    }
    return section;
}

static qsa_status read_head(const qsa_snapshot *file, saved_head *out_head)
{
    const qsa_section *part = find_part(file, SAVED_TAG_HEAD, sizeof *out_head);
    if (part == NULL)
        return QSA_E_FORMAT;
    memcpy(out_head, part->data, sizeof *out_head);
    if (out_head->version != SAVED_VERSION) {
        return engine_fail(QSA_E_UNSUPPORTED, "snapshot: part ENGN has version %u, supported is %d", out_head->version,
                           SAVED_VERSION);
    }
    if (out_head->checkpoints > MAX_CHECKPOINTS + 1 || out_head->fed > 1 || out_head->has_sampler > 1 ||
        out_head->anchor < 0 || out_head->anchor > QSA_MAX_POSITION)
        return bad_part(SAVED_TAG_HEAD, "holds impossible values");
    if (file->n_sections != 3 + out_head->checkpoints + out_head->has_sampler) {
        return engine_fail(QSA_E_FORMAT, "snapshot: %u sections of the host, part ENGN says %u", file->n_sections,
                           3 + out_head->checkpoints + out_head->has_sampler);
    }
    return QSA_OK;
}

static qsa_status check_sequence(const qsa_context *c, const qsa_snapshot *file, const saved_head *head)
{
    if (file->n_sequences != 1)
        return engine_fail(QSA_E_FORMAT, "snapshot: %u sequences; a session has one", file->n_sequences);
    const qsa_seq_info *info = &file->infos[0];
    if (info->window != 0 || info->rotary_frame != 0 || (info->tokens > 0 && !head->fed) ||
        info->anchor != (head->fed ? head->anchor : 0))
        return engine_fail(QSA_E_FORMAT, "snapshot: the sequence's anchor, window or frame is not that of part ENGN");
    return context_check_room(c, info->tokens);
}

static qsa_status read_tokens(qsa_session *s, const qsa_snapshot *file, uint64_t n)
{
    const qsa_section *part = find_part(file, SAVED_TAG_TOKENS, n * sizeof *s->ids);
    if (part == NULL)
        return QSA_E_FORMAT;
    ENGINE_TRY(session_reserve(s, n));
    if (n == 0)
        return QSA_OK;
    memcpy(s->ids, part->data, n * sizeof *s->ids);
    if (context_find_stranger(s->context, s->ids, n) < n)
        return bad_part(SAVED_TAG_TOKENS, "holds a token that is not in the vocabulary");
    return QSA_OK;
}

/* The size of the section tells whether logits follow; its has_logits must agree. */
static qsa_status read_state(const qsa_context *c, const qsa_snapshot *file, uint32_t number, session_state *out)
{
    const uint32_t tag = saved_tag_state(number);
    const qsa_section *section = find_section(file, tag);
    const uint64_t with_logits = STATE_HEAD_BYTES + saved_floats(c, 1) * sizeof(float);
    const uint64_t logits = section != NULL && section->size_bytes == with_logits, n = saved_floats(c, logits);
    const qsa_section *part = find_part(file, tag, STATE_HEAD_BYTES + n * sizeof(float));
    if (part == NULL)
        return QSA_E_FORMAT;
    const char *data = part->data;
    memcpy(&out->tokens, data, sizeof out->tokens);
    memcpy(&out->has_logits, data + sizeof out->tokens, sizeof out->has_logits);
    memcpy(out->floats, data + STATE_HEAD_BYTES, n * sizeof(float));
    if (out->has_logits != logits)
        return bad_part(tag, "has a size that contradicts its has_logits");
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(out->floats[i]))
            return bad_part(tag, "holds a number that is not finite");
    return QSA_OK;
}

static qsa_status read_checkpoint(qsa_session *s, const qsa_snapshot *file, uint32_t number)
{
    session_checkpoints *checkpoints = &s->checkpoints;
    assert(number == checkpoints->n + 1 && checkpoints->n <= MAX_CHECKPOINTS);
    session_state *state = state_new(s->context);
    if (state == NULL)
        return engine_fail(QSA_E_MEMORY, "no memory for the %zu bytes of a state", state_size_bytes(s->context));
    const uint64_t after = checkpoints->n == 0 ? 0 : checkpoints->at[checkpoints->n - 1]->tokens;
    qsa_status status = read_state(s->context, file, number, state);
    if (status == QSA_OK && (state->tokens > s->now->tokens || (checkpoints->n > 0 && state->tokens <= after)))
        status = bad_part(saved_tag_state(number), "is out of order");
    if (status != QSA_OK) {
        state_release(s->context, state);
        return status;
    }
    checkpoints->at[checkpoints->n++] = state;
    return QSA_OK;
}

static qsa_status read_states(qsa_session *s, const qsa_snapshot *file, const saved_head *head)
{
    ENGINE_TRY(read_state(s->context, file, 0, s->now));
    if (s->now->tokens != file->infos[0].tokens)
        return bad_part(saved_tag_state(0), "is the state after a different number of tokens");
    for (uint32_t i = 0; i < head->checkpoints; i++)
        ENGINE_TRY(read_checkpoint(s, file, i + 1));
    return QSA_OK;
}

/* Fills s from the file. *out_sampler: NULL if no sampler was saved. */
static qsa_status read_session(qsa_session *s, const qsa_snapshot *file, const qsa_section **out_sampler)
{
    saved_head head;
    ENGINE_TRY(read_head(file, &head));
    ENGINE_TRY(check_sequence(s->context, file, &head));
    ENGINE_TRY(read_tokens(s, file, file->infos[0].tokens));
    ENGINE_TRY(read_states(s, file, &head));
    *out_sampler = head.has_sampler ? find_part(file, SAVED_TAG_SAMPLER, sizeof(uint64_t)) : NULL;
    if (head.has_sampler && *out_sampler == NULL)
        return QSA_E_FORMAT;
    s->anchor = head.anchor;
    s->fed = head.fed;
    return QSA_OK;
}

/* qsa_snapshot_load opened the file's sequences in the cache: the session takes them over, or they are closed. */
static qsa_status adopt(qsa_session *s, const qsa_snapshot *file, qsa_sampler *sampler)
{
    const qsa_section *random = NULL;
    const qsa_status status = read_session(s, file, &random);
    if (status != QSA_OK) {
        for (uint32_t i = 0; i < file->n_sequences; i++)
            (void)qsa_seq_close(s->context->cache, file->sequences[i]);
        return status;
    }
    if (random != NULL && sampler != NULL) {
        uint64_t state;
        memcpy(&state, random->data, sizeof state);
        qsa_sampler_set_state(sampler, state);
    }
    checkpoints_thin(s->context, &s->checkpoints);
    session_join(s, file->sequences[0]);
    return QSA_OK;
}

qsa_status qsa_session_load(qsa_context *context, const char *path, qsa_sampler *sampler, qsa_session **out_session)
{
    if (context == NULL || path == NULL || out_session == NULL)
        return engine_fail(QSA_E_ARGUMENT, "qsa_session_load: context, path or out_session is NULL");
    ENGINE_TRY(context_idle(context));
    qsa_session *s = NULL;
    qsa_snapshot file;
    uint64_t digest = 0;
    ENGINE_TRY(digest_of(context->model, &digest));
    ENGINE_TRY(session_create(context, &s));
    qsa_status status = qsa_snapshot_load(context->cache, digest, path, &file);
    if (status != QSA_OK) {
        session_free(s);
        return engine_fail_as_library(status);
    }
    status = adopt(s, &file, sampler);
    qsa_snapshot_free(&file);
    if (status != QSA_OK) {
        session_free(s);
        return status;
    }
    *out_session = s;
    return QSA_OK;
}
