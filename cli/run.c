/* SPDX-License-Identifier: Apache-2.0 */
/* qsa run: reads a prompt and generates its continuation. */
#define _POSIX_C_SOURCE 200809L /* sigaction */
#include "cli/commands.h"
#include "console/clock.h"
#include "console/engine_options.h"
#include "console/generation.h"
#include "console/plan_table.h"
#include "console/run_report.h"
#include "console/sampling_options.h"
#include "console/save_target.h"
#include "console/text.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const bool has_engine = true;

static const char COMMAND[] = "run";
enum { DEFAULT_TOKENS = 256, EXIT_SIGNAL = 128 };

/* ---- the command line ---- */

typedef struct request {
    const char *model, *file, *text;
    const char *save; /* a snapshot file to write at the end; NULL: none */
    uint32_t tokens;
    bool specials, help;
    qsa_weight_storage weights;
    generation_options generation;
} request;

enum { OPTION_WEIGHTS = SAMPLING_OPTION_END, OPTION_SPECIALS, OPTION_LOAD, OPTION_SAVE };

static const struct option LONGS[] = {{"model", required_argument, NULL, 'm'},
                                      {"file", required_argument, NULL, 'f'},
                                      {"prompt", required_argument, NULL, 'p'},
                                      {"tokens", required_argument, NULL, 'n'},
                                      {"context", required_argument, NULL, 'c'},
                                      {"weights", required_argument, NULL, OPTION_WEIGHTS},
                                      {"specials", no_argument, NULL, OPTION_SPECIALS},
                                      {"load", required_argument, NULL, OPTION_LOAD},
                                      {"save", required_argument, NULL, OPTION_SAVE},
                                      {"help", no_argument, NULL, 'h'},
                                      ENGINE_OPTIONS,
                                      SAMPLING_OPTIONS,
                                      {NULL, 0, NULL, 0}};

static void print_usage(void)
{
    fputs(
        "usage: qsa run [-m MODEL.gguf] [-f FILE] [-p TEXT] [--load FILE] [--save FILE] [OPTION...]\n"
        "\n"
        "Reads a prompt, the file and then the text, and generates its continuation. Standard output receives the\n"
        "generated text and nothing else; rates, memory and the share of tokens attended to go to standard error.\n"
        "\n"
        "  -m, --model FILE    GGUF file of architecture qwen4exp, or the first of its shards; default: the built-in\n"
        "                      model, which continues text that it has read\n"
        "  -f, --file FILE     prompt from a file; - for standard input\n"
        "  -p, --prompt TEXT   prompt, after that of --file\n"
        "      --load FILE     resume a saved session; the prompt, if any, follows what it holds\n"
        "      --save FILE     save the session at the end, whatever ended it: a signal, a closed\n"
        "                      pipe, an error\n"
        "  -n, --tokens N      tokens to generate, 0 to 2147483647; default 256\n"
        "  -c, --context N     capacity of the cache in tokens, 1 to the model's context; max: the largest that fits\n"
        "                      into memory; default: what the run needs\n",
        stdout);
    fputs(ENGINE_OPTIONS_USAGE, stdout);
    fputs("      --weights KIND  native (default): mapped as they are in the file; f32: dequantised when loaded\n",
          stdout);
    fputs(SAMPLING_USAGE, stdout);
    fputs("      --specials      recognise special tokens in the prompt\n"
          "  -h, --help          print this help\n",
          stdout);
}

static bool take_option(const options *o, int option, request *r)
{
    static const char *const kinds[] = {"native", "f32", NULL};
    int kind = 0;
    switch (option) {
    case 'm':
        return options_path(o, option, &r->model);
    case 'f':
        return options_path(o, option, &r->file);
    case 'p':
        r->text = optarg;
        return true;
    case 'n':
        return options_count(o, option, 0, INT32_MAX, &r->tokens);
    case 'c':
        return plan_option_context(o, option, &r->generation.context.context);
    case 'h':
        r->help = true;
        return true;
    case OPTION_SPECIALS:
        r->specials = true;
        return true;
    case OPTION_LOAD:
        return options_path(o, option, &r->generation.load);
    case OPTION_SAVE:
        return options_path(o, option, &r->save);
    case OPTION_WEIGHTS:
        if (!options_choice(o, option, kinds, &kind))
            return false;
        r->weights = kind == 0 ? QSA_WEIGHTS_NATIVE : QSA_WEIGHTS_F32;
        return true;
    default:
        return sampling_option(o, option, &r->generation) > 0;
    }
}

static bool parse(int argc, char **argv, request *r)
{
    const options o = {COMMAND, argc, argv, "m:f:p:n:c:t:h", LONGS, NULL};
    *r = (request){.tokens = DEFAULT_TOKENS};
    engine_options_init(&r->generation.context);
    qsa_sampler_options_init(&r->generation.sampler);
    for (int option; (option = options_next(&o)) != -1;) {
        if (option == '?')
            return false;
        int taken = engine_option(&o, option, &r->generation.context);
        if (taken < 0 || (taken == 0 && !take_option(&o, option, r)))
            return false;
    }
    if (!r->help && !r->file && !r->text && !r->generation.load) {
        options_say(COMMAND, "nothing to read: give a prompt with -f or -p, or a saved session with --load");
        return false;
    }
    if (!r->generation.load && !r->save)
        r->generation.context.checkpoints = 0; /* nothing here goes back */
    return true;
}

/* ---- before the work ---- */

/* The file, then the text of the command line. */
static bool read_text(const request *r, text *t)
{
    if (r->file && !text_add_file(t, COMMAND, r->file))
        return false;
    if (r->text)
        text_add(t, r->text, strlen(r->text));
    if (t->n == 0 && !r->generation.load)
        options_say(COMMAND, "the text to read is empty");
    return t->n > 0 || r->generation.load;
}

/* Tokens of the file to load. Reading all of it is what tells. */
static bool count_saved(const request *r, uint64_t *out_tokens)
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
static bool find_longest(const request *r, const qsa_model *model, uint32_t *out_tokens)
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
static bool plan_context(request *r, const qsa_model *model, size_t text_tokens)
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

static volatile sig_atomic_t interrupted; /* the signal; 0: none */

static void on_interrupt(int number)
{
    interrupted = number;
}

/* The first signal ends the work at the next token, a second one of its kind the program. */
static void catch_interrupts(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
}

/* What was saved is continued as it is where no text follows it. */
static bool read_prompt(const request *r, generation *g, const int32_t *tokens, size_t n)
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

static bool has_room(const request *r, const generation *g)
{
    qsa_plan plan;
    if (!r->save || qsa_context_plan(g->model, &r->generation.context, &plan) != QSA_OK)
        return true;
    return save_target_has_room(COMMAND, r->save, qsa_plan_session_bytes(&plan, r->generation.context.context));
}

static int run_tokens(const request *r, const qsa_model *model, const int32_t *tokens, size_t n)
{
    generation g;
    run_files files = {.load = r->generation.load, .save = r->save};
    bool is_good = generation_open(&g, COMMAND, model, &r->generation) && has_room(r, &g);
    if (is_good) {
        catch_interrupts();
        g.interrupted = &interrupted;
        is_good = read_prompt(r, &g, tokens, n) && generation_write(&g, r->tokens, r->save != NULL);
        const bool is_saved = save(&g, &files);
        if (!is_good && is_saved && files.save_seconds > 0)
            options_say(COMMAND, "%" PRIu64 " tokens are saved in %s", qsa_session_tokens(g.session), r->save);
        is_good = is_good && is_saved;
    }
    if (is_good)
        run_report_print(&g, &files);
    generation_close(&g);
    return !is_good ? EXIT_FAILURE : interrupted ? EXIT_SIGNAL + interrupted : EXIT_SUCCESS;
}

static int run_model(request *r, const qsa_model *model, const text *t)
{
    const qsa_specials specials = r->specials ? QSA_SPECIALS_ALL : QSA_SPECIALS_NONE;
    int32_t *tokens = NULL;
    size_t n;
    int status = EXIT_FAILURE;
    const char *bytes = t->n > 0 ? t->bytes : "";
    /* What goes on from a saved session is not a whole text. */
    const qsa_status encoded = r->generation.load ? qsa_model_encode(model, bytes, t->n, specials, &tokens, &n)
                                                  : qsa_model_encode_text(model, bytes, t->n, specials, &tokens, &n);
    if (encoded != QSA_OK)
        engine_say(COMMAND);
    else if (plan_context(r, model, n))
        status = run_tokens(r, model, tokens, n);
    free(tokens);
    return status;
}

int cmd_run(int argc, char **argv)
{
    request r;
    text t = {0};
    qsa_model *model;
    int status = EXIT_FAILURE;
    if (!parse(argc, argv, &r))
        return EXIT_USAGE;
    if (r.help) {
        print_usage();
        return EXIT_SUCCESS;
    }
    if (read_text(&r, &t) && (!r.save || save_target_check(COMMAND, r.save)) &&
        engine_open_model(COMMAND, r.model, r.weights, &model)) {
        status = run_model(&r, model, &t);
        qsa_model_close(model);
    }
    free(t.bytes);
    sampling_options_free(&r.generation);
    return status;
}
