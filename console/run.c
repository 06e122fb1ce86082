/* SPDX-License-Identifier: Apache-2.0 */
/* Reading text and continuing it: what is checked before the work, the work, and what is kept of it whatever ends it.
 */
#include "console/run.h"

#include "console/clock.h"
#include "console/engine_options.h"
#include "console/interrupts.h"
#include "console/output_target.h"
#include "console/plan_table.h"
#include "console/run_report.h"
#include "console/sampling_options.h"
#include "console/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char COMMAND[] = "run";

/* ---- before the work ---- */

/* The file, then the text of the command line. */
static bool read_text(const run_request *r, text *t)
{
    if (r->file && !text_add_file(t, COMMAND, r->file))
        return false;
    if (r->text)
        text_add(t, r->text, strlen(r->text));
    if (t->n == 0 && !r->generation.load)
        options_say(COMMAND, "the text to read is empty");
    return t->n > 0 || r->generation.load;
}

static output_target save_target(const run_request *r)
{
    return (output_target){COMMAND, r->save, "QSASNAP\n", "saved session", r->file};
}

static bool may_save(const run_request *r)
{
    const output_target target = save_target(r);
    return !r->save || output_target_check(&target);
}

/* Tokens of the file to load. Reading all of it is what tells. */
static bool count_saved(const run_request *r, uint64_t *out_tokens)
{
    qsa_snapshot saved;
    *out_tokens = 0;
    if (!r->generation.load)
        return true;
    if (qsa_snapshot_inspect_file(r->generation.load, &saved) != QSA_OK) {
        options_say(COMMAND, "%s", qsa_error_detail());
        return false;
    }
    *out_tokens = saved.n_sequences > 0 ? saved.infos[0].tokens : 0;
    qsa_snapshot_free(&saved);
    return true;
}

/* The longest context: the model's, or what --yarn makes of it. */
static bool find_longest(const run_request *r, const qsa_model *model, uint32_t *out_tokens)
{
    qsa_context_options options = r->generation.context;
    qsa_plan plan;
    options.context = 0;
    if (qsa_context_plan(model, &options, &plan) != QSA_OK) {
        engine_say(COMMAND);
        return false;
    }
    *out_tokens = plan.context;
    return true;
}

/* The context asked for, or what prompt and answer need; at most the longest. */
static bool plan_context(run_request *r, const qsa_model *model, size_t text_tokens)
{
    uint32_t *context = &r->generation.context.context;
    uint64_t prompt_tokens;
    uint32_t longest;
    if (!find_longest(r, model, &longest) || !count_saved(r, &prompt_tokens) ||
        !plan_resolve_max(COMMAND, model, &r->generation.context))
        return false;
    prompt_tokens += text_tokens;
    if (*context > longest) {
        options_say(COMMAND, "context %" PRIu32 ": this model takes 1 to %" PRIu32 " tokens%s", *context, longest,
                    r->generation.context.yarn_factor > 0 ? " with that YaRN factor" : "");
        return false;
    }
    if (*context == 0) {
        const uint64_t wanted = prompt_tokens + r->tokens > 0 ? prompt_tokens + r->tokens : 1;
        *context = wanted < longest ? (uint32_t)wanted : longest;
    }
    if (prompt_tokens > *context) {
        options_say(COMMAND, "the prompt has %" PRIu64 " tokens, more than the context of %" PRIu32, prompt_tokens,
                    *context);
        return false;
    }
    return true;
}

/* ---- the work ---- */

/* What was saved is continued as it is where no text follows it. */
static bool read_prompt(const run_request *r, generation *g, const int32_t *tokens, size_t n)
{
    if (n > 0)
        return generation_read(g, tokens, n);
    if (r->tokens == 0)
        return true;
    if (g->loaded == 0) {
        options_say(COMMAND, "%s: nothing to continue: the saved session is empty", r->generation.load);
        return false;
    }
    return generation_recall(g);
}

/* Whatever ended the work, the session holds whole tokens only, and is worth saving. */
static bool save(const generation *g, run_files *files)
{
    if (!files->save || qsa_session_tokens(g->session) == 0)
        return true;
    const double begin = clock_seconds();
    const bool is_good = qsa_session_save(g->session, g->sampler, files->save) == QSA_OK;
    if (!is_good)
        engine_say(COMMAND);
    files->save_seconds = clock_seconds() - begin;
    return is_good;
}

static bool has_room(const run_request *r, const generation *g)
{
    const output_target target = save_target(r);
    qsa_plan plan;
    if (!r->save || qsa_context_plan(g->model, &r->generation.context, &plan) != QSA_OK)
        return true;
    return output_target_has_room(&target, qsa_plan_session_bytes(&plan, r->generation.context.context));
}

static int run_tokens(const run_request *r, const qsa_model *model, const int32_t *tokens, size_t n)
{
    generation g;
    run_files files = {.load = r->generation.load, .save = r->save};
    bool is_good = generation_open(&g, COMMAND, model, &r->generation) && has_room(r, &g);
    if (is_good) {
        interrupts_catch();
        g.interrupted = &interrupts_caught;
        is_good = read_prompt(r, &g, tokens, n) && generation_write(&g, r->tokens, r->save != NULL);
        const bool is_saved = save(&g, &files);
        if (!is_good && is_saved && files.save_seconds > 0)
            options_say(COMMAND, "%" PRIu64 " tokens are saved in %s", qsa_session_tokens(g.session), r->save);
        is_good = is_good && is_saved;
    }
    if (is_good)
        run_report_print(&g, &files);
    generation_close(&g);
    return !is_good ? EXIT_FAILURE : interrupts_caught ? EXIT_SIGNAL + interrupts_caught : EXIT_SUCCESS;
}

static int continue_text(run_request *r, const qsa_model *model, const text *t)
{
    const qsa_specials specials = r->recognises_specials ? QSA_SPECIALS_ALL : QSA_SPECIALS_NONE;
    int32_t *tokens = NULL;
    size_t n;
    int status = EXIT_FAILURE;
    const char *bytes = t->n > 0 ? t->bytes : "";
    /* What goes on from a saved session is not a whole text. */
    const qsa_status encoded = r->generation.load ? qsa_model_encode(model, bytes, t->n, specials, &tokens, &n)
                                                  : qsa_model_encode_text(model, bytes, t->n, specials, &tokens, &n);
    if (encoded != QSA_OK)
        engine_say(COMMAND);
    else if (plan_context(r, model, n)) {
        sampling_take_recommended(COMMAND, model, &r->generation);
        status = run_tokens(r, model, tokens, n);
    }
    free(tokens);
    return status;
}

int run_execute(run_request *r)
{
    text t = {0};
    qsa_model *model;
    int status = EXIT_FAILURE;
    if (read_text(r, &t) && may_save(r) && engine_open_model(COMMAND, r->model, r->weights, &model)) {
        status = continue_text(r, model, &t);
        qsa_model_close(model);
    }
    free(t.bytes);
    return status;
}
