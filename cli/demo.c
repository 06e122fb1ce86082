/* SPDX-License-Identifier: Apache-2.0 */
/* qsa demo: the built-in model reads a long ledger and answers questions, each one right after the ledger. */
#include "cli/commands.h"
#include "console/clock.h"
#include "console/engine_options.h"
#include "console/generation.h"
#include "console/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char COMMAND[] = "demo";
enum { DEFAULT_LEDGER = 32768, DEFAULT_QUESTIONS = 8, MAX_QUESTIONS = 1000, ANSWER_BYTES = 64 };
enum { ROOM = sizeof(qsa_question), MAX_LEDGER = 262144 - ROOM }; /* tokens for a question and its answer; all others */
_Static_assert(MAX_LEDGER == 262048, "as the help text says");

/* ---- the command line ---- */

typedef struct request {
    uint32_t tokens, questions;
    uint64_t seed;
    bool help;
    qsa_context_options context;
} request;

enum { OPTION_SEED = ENGINE_OPTION_END, OPTION_TOKENS, OPTION_QUESTIONS };

static void print_usage(void)
{
    fputs("usage: qsa demo [OPTION...]\n"
          "\n"
          "Reads a ledger of access codes with a small built-in model and asks for some of them, each question right "
          "after\n"
          "the ledger. The model is made on the first run and kept in the cache folder. Exits with 1 unless every "
          "answer is\n"
          "right.\n"
          "\n"
          "      --tokens N      length of the ledger in tokens, 1 to 262048; default 32768\n"
          "      --questions N   questions to ask, 1 to 1000; default 8\n"
          "      --seed N        seed of ledger and questions; default 1\n",
          stdout);
    fputs(ENGINE_OPTIONS_USAGE, stdout);
    fputs("  -h, --help          print this help\n", stdout);
}

static bool take_option(const options *o, int option, request *r)
{
    int64_t seed;
    switch (option) {
    case OPTION_TOKENS:
        return options_count(o, option, 1, MAX_LEDGER, &r->tokens);
    case OPTION_QUESTIONS:
        return options_count(o, option, 1, MAX_QUESTIONS, &r->questions);
    case OPTION_SEED:
        if (!options_integer(o, option, 0, INT64_MAX, &seed))
            return false;
        r->seed = (uint64_t)seed;
        return true;
    default:
        r->help = true;
        return true;
    }
}

static bool parse(int argc, char **argv, request *r)
{
    static const struct option longs[] = {{"tokens", required_argument, NULL, OPTION_TOKENS},
                                          {"questions", required_argument, NULL, OPTION_QUESTIONS},
                                          {"seed", required_argument, NULL, OPTION_SEED},
                                          {"help", no_argument, NULL, 'h'},
                                          ENGINE_OPTIONS,
                                          {NULL, 0, NULL, 0}};
    const options o = {COMMAND, argc, argv, "t:h", longs, NULL};
    *r = (request){.tokens = DEFAULT_LEDGER, .questions = DEFAULT_QUESTIONS, .seed = 1};
    engine_options_init(&r->context);
    for (int option; (option = options_next(&o)) != -1;) {
        if (option == '?')
            return false;
        int taken = engine_option(&o, option, &r->context);
        if (taken < 0 || (taken == 0 && !take_option(&o, option, r)))
            return false;
    }
    return true;
}

/* ---- reading and asking ---- */

static bool read_text(generation *g, const char *text)
{
    int32_t *tokens;
    size_t n;
    if (qsa_model_encode(g->model, text, strlen(text), QSA_SPECIALS_NONE, &tokens, &n) != QSA_OK) {
        engine_say(COMMAND);
        return false;
    }
    const bool is_read = generation_read(g, tokens, n);
    free(tokens);
    return is_read;
}

/* Continues until the answer has as many bytes as the one expected, or the text ends. */
static bool answer(generation *g, const char *question, size_t length, char out[ANSWER_BYTES])
{
    size_t size = 0, n = 0;
    int32_t token = 0;
    const char *bytes;
    bool is_good = read_text(g, question);
    while (is_good) {
        is_good = qsa_sampler_next(g->sampler, g->logits, &token) == QSA_OK &&
                  qsa_model_token_bytes(g->model, token, &bytes, &n) == QSA_OK;
        if (!is_good || qsa_model_is_end(g->model, token) || size + n >= ANSWER_BYTES)
            break;
        memcpy(out + size, bytes, n);
        size += n;
        if (size >= length)
            break; /* nobody asks what would follow */
        is_good = qsa_session_feed(g->session, &token, 1, g->logits, NULL, NULL) == QSA_OK;
    }
    out[size] = '\0';
    return is_good;
}

static const char *without_space(const char *text)
{
    return text[0] == ' ' ? text + 1 : text;
}

/* Asks every question after the ledger alone; counts the right answers. */
static bool ask_all(generation *g, const qsa_question *questions, uint32_t n, uint32_t *out_right)
{
    *out_right = 0;
    for (uint32_t i = 0; i < n; i++) {
        const qsa_question *q = &questions[i];
        char found[ANSWER_BYTES];
        const double begin = clock_seconds();
        if (!answer(g, q->question, strlen(q->expected), found) || qsa_session_return(g->session) != QSA_OK) {
            engine_say(COMMAND);
            return false;
        }
        const bool is_right = strcmp(found, q->expected) == 0;
        printf("%s  answer %-10s  expected %-10s  %-5s  %.2f s\n", q->question, without_space(found),
               without_space(q->expected), is_right ? "ok" : "WRONG", clock_seconds() - begin);
        fflush(stdout);
        *out_right += is_right;
    }
    return true;
}

static bool read_ledger(const request *r, generation *g, const char *text)
{
    printf("reading a ledger of %" PRIu32 " tokens\n", r->tokens);
    fflush(stdout);
    if (!read_text(g, text))
        return false;
    printf("read in %.1f s, %.0f tokens/s\n", g->read_seconds, g->read_seconds > 0 ? r->tokens / g->read_seconds : 0);
    if (qsa_session_mark(g->session) == QSA_OK)
        return true;
    engine_say(COMMAND);
    return false;
}

static int run_demo(const request *r, const qsa_model *model, const char *ledger, const qsa_question *questions)
{
    const double begin = clock_seconds();
    generation_options options = {.context = r->context};
    generation g;
    uint32_t right = 0;
    qsa_sampler_options_init(&options.sampler); /* greedy */
    options.context.context = r->tokens + ROOM;
    const bool is_good = generation_open(&g, COMMAND, model, &options) && read_ledger(r, &g, ledger) &&
                         ask_all(&g, questions, r->questions, &right);
    if (is_good) {
        printf("%" PRIu32 "/%" PRIu32 " right, %.1f s in all\n", right, r->questions, clock_seconds() - begin);
        fflush(stdout);
        engine_print_summary(g.context, &g.info);
    }
    generation_close(&g);
    return is_good && right == r->questions ? EXIT_SUCCESS : EXIT_FAILURE;
}

int cmd_demo(int argc, char **argv)
{
    request r;
    if (!parse(argc, argv, &r))
        return EXIT_USAGE;
    if (r.help) {
        print_usage();
        return EXIT_SUCCESS;
    }
    qsa_model *model;
    char *ledger = NULL;
    int status = EXIT_FAILURE;
    qsa_question *questions = memory_new(r.questions, sizeof *questions);
    if (qsa_demo_ledger(r.seed, r.tokens, &ledger, questions, r.questions) != QSA_OK)
        engine_say(COMMAND);
    else if (engine_open_model(COMMAND, NULL, QSA_WEIGHTS_NATIVE, &model)) {
        status = run_demo(&r, model, ledger, questions);
        qsa_model_close(model);
    }
    free(questions);
    free(ledger);
    return status;
}
