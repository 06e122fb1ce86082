/* SPDX-License-Identifier: Apache-2.0 */
/* Our side of compare.py: runs the engine on a text, command by command, and prints the time of each.
 *
 * compare_ours ledger FILE TOKENS writes a ledger and a question after it; prints the demo model's path and the
 * expected answer.
 *
 * compare_ours MODEL TEXT THREADS CONTEXT STATES prints the number of tokens of the text, their hash, and the number of
 * QSA layers; then takes commands from standard input, and answers each with a line:
 *
 *     read N   prefill of the next N tokens: wall-clock and processor seconds
 *     step N   decode of the next N tokens of the text, each with its logits: the same
 *     say N    greedy continuation: N token numbers
 *     save N   saves the state as number N in the folder STATES: tokens in it
 *     load N   loads that state: tokens in it
 *     probe N  reads N bytes of memory on one thread: wall-clock and processor seconds */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <inttypes.h>
#include <qsa_engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LEDGER_SEED = 1 };

typedef struct moment {
    double wall, processor; /* seconds */
} moment;

static double seconds_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static moment moment_now(void)
{
    return (moment){seconds_of(CLOCK_MONOTONIC), seconds_of(CLOCK_PROCESS_CPUTIME_ID)};
}

static void print_since(moment begin)
{
    const moment end = moment_now();
    printf("%.9f %.9f\n", end.wall - begin.wall, end.processor - begin.processor);
}

static void fail(const char *what)
{
    fprintf(stderr, "compare_ours: %s\n", what);
    exit(EXIT_FAILURE);
}

static void check(qsa_status status)
{
    if (status != QSA_OK)
        fail(qsa_engine_error());
}

static void check_memory(const void *memory)
{
    if (!memory)
        fail("no memory");
}

/* ---- the ledger ---- */

static void write_ledger(const char *path, size_t tokens)
{
    char *text, *model;
    qsa_question question;
    check(qsa_demo_ledger(LEDGER_SEED, tokens, &text, &question, 1));
    check(qsa_demo_model(NULL, NULL, &model));
    FILE *file = fopen(path, "wb");
    if (!file || fputs(text, file) == EOF || fputs(question.question, file) == EOF || fclose(file) != 0)
        fail("cannot write the ledger");
    printf("%s\n%s\n", model, question.expected);
    free(text);
    free(model);
}

/* ---- reading ---- */

typedef struct ours {
    qsa_model *model;
    qsa_model_info info;
    qsa_context *context;
    qsa_session *session;
    qsa_sampler *sampler; /* greedy */
    float *logits;
    int32_t *tokens; /* of the text */
    size_t count, at;
    const char *states; /* folder */
} ours;

static char *read_file(const char *path, size_t *out_size)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        fail("cannot open the text");
    const long size = ftell(file);
    char *text = malloc((size_t)size + 1);
    check_memory(text);
    rewind(file);
    if (fread(text, 1, (size_t)size, file) != (size_t)size)
        fail("cannot read the text");
    fclose(file);
    *out_size = (size_t)size;
    return text;
}

static void open_ours(ours *o, char **arguments)
{
    qsa_context_options options;
    qsa_context_options_init(&options);
    options.threads = (uint32_t)atoi(arguments[2]);
    options.context = (uint32_t)atoi(arguments[3]);
    o->states = arguments[4];
    check(qsa_model_open(arguments[0], NULL, &o->model));
    qsa_model_get_info(o->model, &o->info);
    check(qsa_context_create(o->model, &options, &o->context));
    check(qsa_session_open(o->context, &o->session));
    check(qsa_sampler_create(NULL, o->info.vocabulary, &o->sampler));
    o->logits = malloc(o->info.vocabulary * sizeof *o->logits);
    check_memory(o->logits);
    size_t size;
    char *text = read_file(arguments[1], &size);
    check(qsa_model_encode(o->model, text, size, QSA_SPECIALS_NONE, &o->tokens, &o->count));
    free(text);
}

static void close_ours(ours *o)
{
    free(o->tokens);
    free(o->logits);
    qsa_sampler_destroy(o->sampler);
    qsa_session_close(o->session);
    qsa_context_destroy(o->context);
    qsa_model_close(o->model);
}

static uint64_t hash_tokens(const ours *o)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < o->count; i++)
        hash = (hash ^ (uint32_t)o->tokens[i]) * UINT64_C(0x100000001B3);
    return hash;
}

static void next(ours *o, size_t n)
{
    if (n > o->count - o->at)
        fail("the text has no more tokens");
    check(qsa_session_feed(o->session, o->tokens + o->at, n, o->logits, NULL, NULL));
    o->at += n;
}

static void say(ours *o, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int32_t token;
        check(qsa_sampler_next(o->sampler, o->logits, &token));
        printf("%s%" PRId32, i ? " " : "", token);
        check(qsa_session_feed(o->session, &token, 1, o->logits, NULL, NULL));
    }
    putchar('\n');
}

/* ---- the machine ---- */

static volatile uint64_t sink; /* keeps the work alive */

static void probe(size_t bytes)
{
    const size_t n = bytes / sizeof(uint64_t);
    uint64_t *words = malloc(n * sizeof *words), sum = 0;
    check_memory(words);
    memset(words, 1, n * sizeof *words); /* touches every page */
    const moment begin = moment_now();
    for (size_t i = 0; i < n; i++)
        sum += words[i];
    sink = sum;
    print_since(begin);
    free(words);
}

/* ---- commands ---- */

static void read_or_step(ours *o, bool is_step, size_t n)
{
    const size_t each = is_step ? 1 : n;
    const moment begin = moment_now();
    for (size_t done = 0; done < n; done += each)
        next(o, each);
    print_since(begin);
}

static void save(const ours *o, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/ours-%zu", o->states, n);
    check(qsa_session_save(o->session, NULL, path));
    printf("%zu\n", o->at);
}

static void load(ours *o, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/ours-%zu", o->states, n);
    qsa_session_close(o->session);
    o->session = NULL;
    check(qsa_session_load(o->context, path, NULL, &o->session));
    o->at = (size_t)qsa_session_tokens(o->session);
    printf("%zu\n", o->at);
}

static void take_commands(ours *o)
{
    char word[16];
    size_t n;
    while (scanf("%15s %zu", word, &n) == 2) {
        if (strcmp(word, "say") == 0)
            say(o, n);
        else if (strcmp(word, "probe") == 0)
            probe(n);
        else if (strcmp(word, "save") == 0)
            save(o, n);
        else if (strcmp(word, "load") == 0)
            load(o, n);
        else
            read_or_step(o, strcmp(word, "step") == 0, n);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "ledger") == 0) {
        write_ledger(argv[2], (size_t)atoi(argv[3]));
        return EXIT_SUCCESS;
    }
    if (argc != 6)
        fail("usage: compare_ours MODEL TEXT THREADS CONTEXT STATES, or compare_ours ledger FILE TOKENS");
    ours o = {0};
    open_ours(&o, argv + 1);
    printf("%zu %016" PRIx64 " %" PRIu32 "\n", o.count, hash_tokens(&o), o.info.qsa.layers);
    fflush(stdout);
    take_commands(&o);
    close_ours(&o);
    return EXIT_SUCCESS;
}
