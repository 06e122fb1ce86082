/* SPDX-License-Identifier: Apache-2.0 */
/* qsa demo: the embedded model reads a long ledger and is asked about it, each question after the ledger alone. */
#include "cli/commands.h"
#include "console/clock.h"
#include "console/device_option.h"
#include "console/engine_options.h"
#include "console/memory.h"
#include "console/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char COMMAND[] = "demo";
enum { DEFAULT_LEDGER = 32768, DEFAULT_QUESTIONS = 8, MAX_QUESTIONS = 1000, ANSWER_BYTES = 64 };

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
    fputs(
        "usage: qsa demo [OPTION...]\n"
        "\n"
        "Makes a small real model (once, in the cache folder), reads it a ledger of access codes and asks for some of\n"
        "them, each after the ledger alone. Exits with 1 unless every answer is right.\n"
        "\n"
        "      --tokens N      length of the ledger in tokens, 1 to 262048; default 32768\n"
        "      --questions N   1 to 1000; default 8\n"
        "      --seed N        chooses ledger and questions; default 1\n",
        stdout);
    fputs(ENGINE_OPTIONS_USAGE, stdout);
    fputs("  -h, --help          this text\n", stdout);
}

static bool take_option(const options *o, int option, request *r)
{
    int64_t seed;
    switch (option) {
    case OPTION_TOKENS:
        return options_count(o, option, 1, INT32_MAX, &r->tokens);
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

typedef struct demo {
    const request *r;
    qsa_model *model;
    qsa_model_info info;
    qsa_context *context;
    qsa_session *session;
    qsa_sampler *sampler; /* greedy */
    float *logits;
} demo;

/* The text that is being read. */
typedef struct reading {
    size_t tokens;
    double begin;
} reading;

static bool show_reading(void *user, size_t fed)
{
    const reading *r = user;
    progress_show(fed, r->tokens, clock_seconds() - r->begin);
    return true;
}

/* Reads a text; logits of its last token if they are wanted. A bar is shown for one that takes more than one pass. */
static bool read_text(demo *d, const char *text, float *logits)
{
    int32_t *tokens;
    size_t n;
    if (qsa_model_encode(d->model, text, strlen(text), QSA_SPECIALS_NONE, &tokens, &n) != QSA_OK) {
        engine_say(COMMAND);
        return false;
    }
    reading shown = {n, clock_seconds()};
    bool is_read = qsa_session_feed(d->session, tokens, n, logits, n > d->r->context.chunk ? show_reading : NULL,
                                    &shown) == QSA_OK;
    if (!is_read)
        engine_say(COMMAND);
    free(tokens);
    return is_read;
}

/* Continues greedily until the answer has as many bytes as the one expected, or the text ends. */
static bool answer(demo *d, const char *question, size_t length, char out[ANSWER_BYTES])
{
    size_t size = 0;
    if (!read_text(d, question, d->logits))
        return false;
    while (size < length) {
        int32_t token;
        const char *bytes;
        size_t n;
        if (qsa_sampler_next(d->sampler, d->logits, &token) != QSA_OK ||
            qsa_model_token_bytes(d->model, token, &bytes, &n) != QSA_OK) {
            engine_say(COMMAND);
            return false;
        }
        if (token == d->info.eos || size + n >= ANSWER_BYTES)
            break;
        memcpy(out + size, bytes, n);
        size += n;
        if (size >= length)
            break; /* nobody asks what would follow */
        if (qsa_session_feed(d->session, &token, 1, d->logits, NULL, NULL) != QSA_OK) {
            engine_say(COMMAND);
            return false;
        }
    }
    out[size] = '\0';
    return true;
}

static const char *without_space(const char *text)
{
    return text[0] == ' ' ? text + 1 : text;
}

/* Asks every question after the ledger alone; counts the right answers. False after an error was said. */
static bool ask_all(demo *d, const qsa_question *questions, uint32_t *out_right)
{
    *out_right = 0;
    for (uint32_t i = 0; i < d->r->questions; i++) {
        const qsa_question *q = &questions[i];
        char found[ANSWER_BYTES];
        const double begin = clock_seconds();
        if (!answer(d, q->question, strlen(q->expected), found))
            return false;
        const bool is_right = strcmp(found, q->expected) == 0;
        printf("%s  answer %-10s  expected %-10s  %-5s  %.2f s\n", q->question, without_space(found),
               without_space(q->expected), is_right ? "ok" : "WRONG", clock_seconds() - begin);
        fflush(stdout);
        *out_right += is_right;
        if (qsa_session_return(d->session) != QSA_OK) {
            engine_say(COMMAND);
            return false;
        }
    }
    return true;
}

static bool read_ledger(demo *d, const char *text)
{
    const double begin = clock_seconds();
    printf("reading a ledger of %" PRIu32 " tokens\n", d->r->tokens);
    fflush(stdout);
    if (!read_text(d, text, NULL))
        return false;
    const double seconds = clock_seconds() - begin;
    printf("read in %.1f s, %.0f tokens/s\n", seconds, seconds > 0 ? d->r->tokens / seconds : 0);
    if (qsa_session_mark(d->session) == QSA_OK)
        return true;
    engine_say(COMMAND);
    return false;
}

static bool open_session(demo *d)
{
    qsa_context_options options = d->r->context;
    const uint32_t room = sizeof(qsa_question); /* for question and answer */
    qsa_model_get_info(d->model, &d->info);
    if (d->r->tokens > d->info.context - room) {
        options_say(COMMAND, "option --tokens is %" PRIu32 ": a context of %" PRIu32 " tokens has room for %" PRIu32,
                    d->r->tokens, d->info.context, d->info.context - room);
        return false;
    }
    options.context = d->r->tokens + room;
    options.device = device_in_use();
    d->logits = memory_new(d->info.vocabulary, sizeof *d->logits);
    if (qsa_context_create(d->model, &options, &d->context) == QSA_OK &&
        qsa_session_open(d->context, &d->session) == QSA_OK &&
        qsa_sampler_create(NULL, d->info.vocabulary, &d->sampler) == QSA_OK)
        return true;
    engine_say(COMMAND);
    return false;
}

static int run_demo(demo *d, const char *ledger, const qsa_question *questions)
{
    const double begin = clock_seconds();
    uint32_t right = 0;
    if (!open_session(d) || !read_ledger(d, ledger) || !ask_all(d, questions, &right))
        return EXIT_FAILURE;
    printf("%" PRIu32 "/%" PRIu32 " right, %.1f s in all\n", right, d->r->questions, clock_seconds() - begin);
    fflush(stdout);
    engine_print_summary(d->context, &d->info);
    return right == d->r->questions ? EXIT_SUCCESS : EXIT_FAILURE;
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
    demo d = {.r = &r};
    char *ledger = NULL;
    int status = EXIT_FAILURE;
    qsa_question *questions = memory_new(r.questions, sizeof *questions);
    if (qsa_demo_ledger(r.seed, r.tokens, &ledger, questions, r.questions) != QSA_OK)
        engine_say(COMMAND);
    else if (engine_open_model(COMMAND, NULL, QSA_WEIGHTS_NATIVE, &d.model))
        status = run_demo(&d, ledger, questions);
    qsa_sampler_destroy(d.sampler);
    qsa_session_close(d.session);
    qsa_context_destroy(d.context);
    qsa_model_close(d.model);
    free(d.logits);
    free(questions);
    free(ledger);
    return status;
}
