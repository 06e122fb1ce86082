/* SPDX-License-Identifier: Apache-2.0 */
/* qsa run: reads a file, then a text, and continues. */
#define _POSIX_C_SOURCE 200809L /* sigaction, isatty */
#include "cli/commands.h"
#include "console/clock.h"
#include "console/device_option.h"
#include "console/engine_options.h"
#include "console/memory.h"
#include "console/progress.h"
#include "console/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char COMMAND[] = "run";
enum { DEFAULT_TOKENS = 256, EXIT_INTERRUPTED = 130 };

/* ---- the command line ---- */

typedef struct request {
    const char *model, *file, *text;
    const char *load, *save; /* snapshot files */
    uint32_t tokens;
    bool specials, help, has_seed;
    qsa_weights weights;
    qsa_context_options context;
    qsa_sampler_options sampler;
} request;

enum {
    OPTION_TEMP = ENGINE_OPTION_END,
    OPTION_TOP_K,
    OPTION_TOP_P,
    OPTION_MIN_P,
    OPTION_SEED,
    OPTION_WEIGHTS,
    OPTION_SPECIALS,
    OPTION_LOAD,
    OPTION_SAVE
};

static const struct option LONGS[] = {{"model", required_argument, NULL, 'm'},
                                      {"file", required_argument, NULL, 'f'},
                                      {"prompt", required_argument, NULL, 'p'},
                                      {"tokens", required_argument, NULL, 'n'},
                                      {"context", required_argument, NULL, 'c'},
                                      {"temp", required_argument, NULL, OPTION_TEMP},
                                      {"top-k", required_argument, NULL, OPTION_TOP_K},
                                      {"top-p", required_argument, NULL, OPTION_TOP_P},
                                      {"min-p", required_argument, NULL, OPTION_MIN_P},
                                      {"seed", required_argument, NULL, OPTION_SEED},
                                      {"weights", required_argument, NULL, OPTION_WEIGHTS},
                                      {"specials", no_argument, NULL, OPTION_SPECIALS},
                                      {"load", required_argument, NULL, OPTION_LOAD},
                                      {"save", required_argument, NULL, OPTION_SAVE},
                                      {"help", no_argument, NULL, 'h'},
                                      ENGINE_OPTIONS,
                                      {NULL, 0, NULL, 0}};

static void print_usage(void)
{
    fputs("usage: qsa run [-m MODEL.gguf] [--load FILE] [-f FILE] [-p TEXT] [--save FILE] [OPTION...]\n"
          "\n"
          "Reads the file, then the text, and continues. The generated text alone goes to standard output; rates, "
          "memory\n"
          "and how sparse the attention was go to standard error.\n"
          "\n"
          "  -m, --model FILE    a qwen4exp GGUF, or the first of a split one; default: the embedded model, which\n"
          "                      continues text that it has read\n"
          "  -f, --file FILE     text to read first; /dev/stdin is standard input\n"
          "  -p, --prompt TEXT   text to read then\n"
          "      --load FILE     go on from what was saved: text is read after it; without text it is continued as if "
          "it\n"
          "                      had never stopped\n"
          "      --save FILE     save all that was read and written at the end, also after Ctrl-C\n"
          "  -n, --tokens N      tokens to generate, 0 to 2147483647; 0: read only; default 256\n"
          "  -c, --context N     tokens that the cache holds, 1 to the model's; default: as many as are needed\n",
          stdout);
    fputs(ENGINE_OPTIONS_USAGE, stdout);
    fputs("      --weights KIND  native (default): as in the file, mapped; f32: dequantised at load\n"
          "      --temp X        temperature; 0 (default): greedy\n"
          "      --top-k N       sample from the N likeliest tokens only; 0 (default): all\n"
          "      --top-p X       sample from the likeliest tokens that together have probability X, above 0 to 1\n"
          "      --min-p X       leave out tokens less likely than X times the likeliest, 0 to 1\n"
          "      --seed N        of the sampler; default 0, or the random numbers of --load go on\n"
          "      --specials      recognise special tokens in the text\n"
          "  -h, --help          this text\n",
          stdout);
}

static bool take_sampler(const options *o, int option, request *r)
{
    int64_t seed;
    switch (option) {
    case OPTION_TEMP:
        return options_number(o, option, 0, 1000, &r->sampler.temperature);
    case OPTION_TOP_K:
        return options_count(o, option, 0, INT32_MAX, &r->sampler.top_k);
    case OPTION_TOP_P:
        if (!options_number(o, option, 0, 1, &r->sampler.top_p))
            return false;
        if (r->sampler.top_p > 0)
            return true;
        options_say(COMMAND, "option --top-p must be above 0");
        return false;
    case OPTION_MIN_P:
        return options_number(o, option, 0, 1, &r->sampler.min_p);
    default:
        if (!options_integer(o, option, 0, INT64_MAX, &seed))
            return false;
        r->sampler.seed = (uint64_t)seed;
        r->has_seed = true;
        return true;
    }
}

/* An empty name is a script's unset variable; the work would only fail at its end. */
static bool take_path(const char *name, const char **out)
{
    *out = optarg;
    if (optarg[0] != '\0')
        return true;
    options_say(COMMAND, "option %s must name a file, not ''", name);
    return false;
}

static bool take_option(const options *o, int option, request *r)
{
    static const char *const kinds[] = {"native", "f32", NULL};
    int kind = 0;
    switch (option) {
    case 'm':
        return take_path("-m", &r->model);
    case 'f':
        return take_path("-f", &r->file);
    case 'p':
        r->text = optarg;
        return true;
    case 'n':
        return options_count(o, option, 0, INT32_MAX, &r->tokens);
    case 'c':
        return options_count(o, option, 1, INT32_MAX, &r->context.context);
    case 'h':
        r->help = true;
        return true;
    case OPTION_SPECIALS:
        r->specials = true;
        return true;
    case OPTION_LOAD:
        return take_path("--load", &r->load);
    case OPTION_SAVE:
        return take_path("--save", &r->save);
    case OPTION_WEIGHTS:
        if (!options_choice(o, option, kinds, &kind))
            return false;
        r->weights = kind == 0 ? QSA_WEIGHTS_NATIVE : QSA_WEIGHTS_F32;
        return true;
    default:
        return take_sampler(o, option, r);
    }
}

static bool parse(int argc, char **argv, request *r)
{
    const options o = {COMMAND, argc, argv, "m:f:p:n:c:t:h", LONGS, NULL};
    *r = (request){.tokens = DEFAULT_TOKENS};
    engine_options_init(&r->context);
    qsa_sampler_options_init(&r->sampler);
    for (int option; (option = options_next(&o)) != -1;) {
        if (option == '?')
            return false;
        int taken = engine_option(&o, option, &r->context);
        if (taken < 0 || (taken == 0 && !take_option(&o, option, r)))
            return false;
    }
    if (!r->help && !r->file && !r->text && !r->load) {
        options_say(COMMAND,
                    "nothing to read: give a file with -f, a text with -p, or both; or --load a saved session");
        return false;
    }
    if (!r->load && !r->save)
        r->context.checkpoints = 0; /* nothing here goes back */
    return true;
}

/* ---- the prompt ---- */

typedef struct text_buffer {
    char *bytes;
    size_t n, capacity;
} text_buffer;

static void add_bytes(text_buffer *text, const char *bytes, size_t n)
{
    text->bytes = memory_grow(text->bytes, &text->capacity, text->n + n + 1, 1);
    memcpy(text->bytes + text->n, bytes, n);
    text->n += n;
}

/* A source without an end, /dev/zero, must not take all memory. */
static bool add_file(text_buffer *text, const char *path)
{
    enum { MAX_MIB = 1024 };
    char block[65536];
    FILE *file = fopen(path, "rb");
    if (!file) {
        options_say(COMMAND, "%s: %s", path, strerror(errno));
        return false;
    }
    for (size_t n; text->n >> 20 < MAX_MIB && (n = fread(block, 1, sizeof block, file)) > 0;)
        add_bytes(text, block, n);
    bool is_read = !ferror(file) && text->n >> 20 < MAX_MIB;
    if (text->n >> 20 >= MAX_MIB)
        options_say(COMMAND, "%s: more than %d MiB of text", path, MAX_MIB);
    else if (!is_read)
        options_say(COMMAND, "%s: %s", path, strerror(errno)); /* a directory opens, but cannot be read */
    fclose(file);
    return is_read;
}

typedef struct prompt {
    int32_t *tokens;
    size_t n;
} prompt;

/* The file, then the text of the command line. */
static bool read_text(const request *r, text_buffer *text)
{
    if (r->file && !add_file(text, r->file))
        return false;
    if (r->text)
        add_bytes(text, r->text, strlen(r->text));
    if (text->n == 0 && !r->load)
        options_say(COMMAND, "the text to read is empty");
    return text->n > 0 || r->load;
}

static bool encode(const request *r, const qsa_model *model, const text_buffer *text, prompt *out)
{
    const qsa_specials specials = r->specials ? QSA_SPECIALS_ALL : QSA_SPECIALS_NONE;
    const char *bytes = text->n > 0 ? text->bytes : "";
    if (qsa_model_encode(model, bytes, text->n, specials, &out->tokens, &out->n) == QSA_OK)
        return true;
    engine_say(COMMAND);
    return false;
}

/* Tokens of the file to load. Reading all of it is what tells. */
static bool count_saved(const request *r, uint64_t *out_tokens)
{
    qsa_snapshot saved;
    *out_tokens = 0;
    if (!r->load)
        return true;
    if (qsa_snapshot_inspect_file(r->load, &saved) != QSA_OK) {
        options_say(COMMAND, "%s: %s", r->load, qsa_error_detail());
        return false;
    }
    *out_tokens = saved.n_sequences > 0 ? saved.infos[0].tokens : 0;
    qsa_snapshot_free(&saved);
    return true;
}

/* The context asked for, or what prompt and answer need; at most the model's. */
static bool plan_context(request *r, const qsa_model_info *info, size_t text_tokens)
{
    uint32_t *context = &r->context.context;
    uint64_t prompt_tokens;
    if (!count_saved(r, &prompt_tokens))
        return false;
    prompt_tokens += text_tokens;
    if (*context > info->context) {
        options_say(COMMAND, "context %" PRIu32 ": this model takes 1 to %" PRIu32 " tokens", *context, info->context);
        return false;
    }
    if (*context == 0) {
        const uint64_t wanted = prompt_tokens + r->tokens > 0 ? prompt_tokens + r->tokens : 1;
        *context = wanted < info->context ? (uint32_t)wanted : info->context;
    }
    if (prompt_tokens > *context) {
        options_say(COMMAND, "the prompt has %" PRIu64 " tokens, more than the context of %" PRIu32, prompt_tokens,
                    *context);
        return false;
    }
    return true;
}

/* ---- running ---- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* The first Ctrl-C ends the work at the next token, a second one the program. */
static void catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
}

typedef struct generation {
    const request *r;
    const qsa_model *model;
    qsa_model_info info;
    qsa_context *context;
    qsa_session *session;
    qsa_sampler *sampler;
    float *logits;
    char kept[8]; /* bytes of a character that is not whole yet */
    size_t n_kept;
    uint64_t loaded; /* tokens of the file */
    uint64_t generated;
    size_t read; /* tokens of the text */
    double prompt_seconds, decode_seconds, load_seconds, save_seconds;
    const char *ending; /* why it stopped */
} generation;

/* What was saved is to be continued as it is: the logits of its end are in the file, or are computed. */
static bool recall_end(generation *g)
{
    const uint64_t n = qsa_session_tokens(g->session);
    if (g->r->tokens == 0)
        return true;
    if (n == 0) {
        options_say(COMMAND, "%s: nothing to continue: the saved session is empty", g->r->load);
        return false;
    }
    int32_t *list = memory_new(n, sizeof *list);
    memcpy(list, qsa_session_list(g->session), n * sizeof *list);
    const bool is_good = qsa_session_want(g->session, list, n, g->logits, NULL, NULL, NULL) == QSA_OK;
    free(list);
    if (!is_good)
        engine_say(COMMAND);
    return is_good;
}

typedef struct reading {
    generation *g;
    size_t n; /* tokens of the text */
    double begin;
} reading;

/* Ctrl-C is heard between two chunks. */
static bool after_chunk(void *user, size_t fed)
{
    const reading *r = user;
    r->g->read = fed;
    r->g->prompt_seconds = clock_seconds() - r->begin;
    progress_show(fed, r->n, r->g->prompt_seconds);
    return !interrupted;
}

static bool read_tokens(generation *g, const prompt *p)
{
    if (p->n == 0)
        return recall_end(g);
    reading r = {g, p->n, clock_seconds()};
    const qsa_status status = qsa_session_feed(g->session, p->tokens, p->n, g->logits, after_chunk, &r);
    if (status == QSA_OK || status == QSA_E_CANCELLED)
        return true;
    engine_say(COMMAND);
    return false;
}

static bool write_out(const char *bytes, size_t n)
{
    if (n == 0 || (fwrite(bytes, 1, n, stdout) == n && fflush(stdout) == 0))
        return true;
    options_say(COMMAND, "cannot write to standard output: %s", strerror(errno));
    return false;
}

/* Writes what is whole of the bytes kept and those of a token. */
static bool write_token(generation *g, int32_t token)
{
    const char *bytes;
    size_t n;
    if (qsa_model_token_bytes(g->model, token, &bytes, &n) != QSA_OK) {
        engine_say(COMMAND);
        return false;
    }
    char *text = memory_new(g->n_kept + n, 1);
    memcpy(text, g->kept, g->n_kept);
    memcpy(text + g->n_kept, bytes, n);
    n += g->n_kept;
    const size_t whole = utf8_whole(text, n);
    g->n_kept = n - whole;
    memcpy(g->kept, text + whole, g->n_kept);
    const bool is_written = write_out(text, whole);
    free(text);
    return is_written;
}

static bool is_full(const generation *g)
{
    return qsa_session_tokens(g->session) == g->r->context.context;
}

/* One token. False at the end: either with an ending, or after an error was said. */
static bool generate_token(generation *g)
{
    int32_t token;
    if (g->r->save && is_full(g)) { /* what is written is saved, too */
        g->ending = "the context is full";
        return false;
    }
    if (qsa_sampler_next(g->sampler, g->logits, &token) != QSA_OK) {
        engine_say(COMMAND);
        return false;
    }
    if (token == g->info.eos) {
        g->ending = "end of text";
        return false;
    }
    if (!write_token(g, token))
        return false;
    g->generated++;
    if (g->generated == g->r->tokens)
        g->ending = "";
    else if (is_full(g))
        g->ending = "the context is full";
    if (g->ending && !g->r->save)
        return false; /* nobody asks what would follow */
    if (qsa_session_feed(g->session, &token, 1, g->logits, NULL, NULL) != QSA_OK) {
        engine_say(COMMAND);
        g->ending = NULL;
        return false;
    }
    return !g->ending;
}

static bool generate(generation *g)
{
    const double begin = clock_seconds();
    g->ending = g->r->tokens == 0 || interrupted ? "" : NULL;
    while (!g->ending && !interrupted && generate_token(g))
        ;
    g->decode_seconds = clock_seconds() - begin;
    return (g->ending || interrupted) && write_out(g->kept, g->n_kept);
}

static void print_rate(const char *what, uint64_t tokens, double seconds)
{
    if (tokens > 0)
        fprintf(stderr, "%s    %" PRIu64 " tokens in %.2f s, %.1f tokens/s\n", what, tokens, seconds,
                seconds > 0 ? (double)tokens / seconds : 0);
}

static void print_files(const generation *g)
{
    char size[32];
    struct stat about;
    if (g->r->load)
        fprintf(stderr, "loaded    %" PRIu64 " tokens in %.2f s\n", g->loaded, g->load_seconds);
    if (g->r->save && stat(g->r->save, &about) == 0)
        fprintf(stderr, "saved     %" PRIu64 " tokens in %.2f s, %s\n", qsa_session_tokens(g->session), g->save_seconds,
                engine_bytes((uint64_t)about.st_size, size));
}

static void print_summary(const generation *g)
{
    if (isatty(STDOUT_FILENO))
        fputc('\n', stderr);
    if (interrupted)
        fputs("interrupted\n", stderr);
    else if (g->ending && g->ending[0])
        fprintf(stderr, "stopped: %s\n", g->ending);
    print_files(g);
    print_rate("prompt", g->read, g->prompt_seconds);
    print_rate("decode", g->generated, g->decode_seconds);
    engine_print_summary(g->context, &g->info);
}

/* A new session, or the saved one. */
static qsa_status open_session(generation *g)
{
    if (!g->r->load)
        return qsa_session_open(g->context, &g->session);
    const double begin = clock_seconds();
    qsa_sampler *sampler = g->r->has_seed ? NULL : g->sampler;
    const qsa_status status = qsa_session_load(g->context, g->r->load, sampler, &g->session);
    if (status == QSA_OK)
        g->loaded = qsa_session_tokens(g->session);
    g->load_seconds = clock_seconds() - begin;
    return status;
}

static bool open_generation(generation *g)
{
    g->logits = memory_new(g->info.vocabulary, sizeof *g->logits);
    qsa_context_options options = g->r->context;
    options.device = device_in_use();
    if (qsa_context_create(g->model, &options, &g->context) == QSA_OK &&
        qsa_sampler_create(&g->r->sampler, g->info.vocabulary, &g->sampler) == QSA_OK && open_session(g) == QSA_OK)
        return true;
    engine_say(COMMAND);
    return false;
}

static bool save(generation *g)
{
    const double begin = clock_seconds();
    if (g->r->save && qsa_session_save(g->session, g->sampler, g->r->save) != QSA_OK) {
        engine_say(COMMAND);
        return false;
    }
    g->save_seconds = clock_seconds() - begin;
    return true;
}

static int run_prompt(const request *r, const qsa_model *model, const qsa_model_info *info, const prompt *p)
{
    generation g = {.r = r, .model = model, .info = *info};
    bool is_good = open_generation(&g);
    if (is_good) {
        catch_interrupts();
        is_good = read_tokens(&g, p) && generate(&g) && save(&g);
    }
    if (is_good)
        print_summary(&g);
    qsa_sampler_destroy(g.sampler);
    qsa_session_close(g.session);
    qsa_context_destroy(g.context);
    free(g.logits);
    return !is_good ? EXIT_FAILURE : interrupted ? EXIT_INTERRUPTED : EXIT_SUCCESS;
}

/* Said before the work, not after it: there must be a folder to save to. */
static bool can_save(const request *r)
{
    if (!r->save)
        return true;
    char *folder = memory_new(strlen(r->save) + 2, 1);
    const char *slash = strrchr(r->save, '/');
    struct stat about;
    if (slash)
        memcpy(folder, r->save, (size_t)(slash - r->save) + 1);
    else
        folder[0] = '.';
    bool is_good = access(folder, W_OK | X_OK) == 0;
    if (!is_good)
        options_say(COMMAND, "cannot save to %s: %s", r->save, strerror(errno));
    else if (stat(r->save, &about) == 0 && !S_ISREG(about.st_mode)) {
        options_say(COMMAND, "cannot save to %s: it is no regular file", r->save);
        is_good = false;
    }
    free(folder);
    return is_good;
}

static int run_text(request *r, const text_buffer *text)
{
    qsa_model *model;
    qsa_model_info info;
    prompt p = {0};
    int status = EXIT_FAILURE;
    if (!can_save(r) || !engine_open_model(COMMAND, r->model, r->weights, &model))
        return EXIT_FAILURE;
    qsa_model_get_info(model, &info);
    if (encode(r, model, text, &p) && plan_context(r, &info, p.n))
        status = run_prompt(r, model, &info, &p);
    free(p.tokens);
    qsa_model_close(model);
    return status;
}

int cmd_run(int argc, char **argv)
{
    request r;
    text_buffer text = {0};
    if (!parse(argc, argv, &r))
        return EXIT_USAGE;
    if (r.help) {
        print_usage();
        return EXIT_SUCCESS;
    }
    int status = read_text(&r, &text) ? run_text(&r, &text) : EXIT_FAILURE;
    free(text.bytes);
    return status;
}
