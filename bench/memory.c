/* SPDX-License-Identifier: Apache-2.0 */
/* usage: bench_memory MODEL.gguf [prompt tokens [decode tokens [threads [mapped|locked|loaded]]]]
 *
 * Rates of a prompt and of decoding with a cold page cache (the file's pages dropped first) and a warm one, with major
 * page faults per token. Tokens are random, so every token reads other rows of embedding and n-gram table. Run it in a
 * memory cgroup to see a file larger than the memory. */
#define _DEFAULT_SOURCE   /* getrusage */
#define _XOPEN_SOURCE 700 /* posix_fadvise */
#include "console/clock.h"

#include <fcntl.h>
#include <qsa_engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

typedef struct job {
    const char *path;
    uint32_t prompt, decode, threads;
    qsa_residency residency;
} job;

static void check(qsa_status status)
{
    if (status == QSA_OK)
        return;
    fprintf(stderr, "bench_memory: %s\n", qsa_engine_error());
    exit(EXIT_FAILURE);
}

static void drop_pages(const char *path)
{
    const int descriptor = open(path, O_RDONLY);
    if (descriptor < 0 || posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) != 0)
        fprintf(stderr, "bench_memory: %s: its pages cannot be dropped\n", path);
    if (descriptor >= 0)
        close(descriptor);
}

static long major_faults(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_majflt : 0;
}

static int32_t random_token(uint64_t *state, uint32_t vocabulary)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((*state >> 33) % vocabulary);
}

static void print_line(const char *what, uint32_t tokens, double seconds, long faults)
{
    printf("%-24s %6u tokens %9.2f s %9.2f tokens/s %9.2f major faults per token\n", what, tokens, seconds,
           tokens / seconds, (double)faults / tokens);
    fflush(stdout);
}

/* One session: prompt, then decoding. */
static void run(const job *j, qsa_context *context, uint32_t vocabulary, const char *when, uint64_t seed)
{
    char what[64];
    int32_t *tokens = malloc((size_t)(j->prompt + j->decode) * sizeof *tokens);
    float *logits = malloc(vocabulary * sizeof *logits);
    qsa_session *session;
    if (tokens == NULL || logits == NULL)
        exit(EXIT_FAILURE);
    for (uint32_t i = 0; i < j->prompt + j->decode; i++)
        tokens[i] = random_token(&seed, vocabulary);
    check(qsa_session_open(context, &session));
    long faults = major_faults();
    double begin = clock_seconds();
    check(qsa_session_feed(session, tokens, j->prompt, logits, NULL, NULL));
    snprintf(what, sizeof what, "prompt, %s", when);
    print_line(what, j->prompt, clock_seconds() - begin, major_faults() - faults);
    faults = major_faults();
    begin = clock_seconds();
    for (uint32_t i = 0; i < j->decode; i++)
        check(qsa_session_feed(session, tokens + j->prompt + i, 1, logits, NULL, NULL));
    snprintf(what, sizeof what, "decode, %s", when);
    print_line(what, j->decode, clock_seconds() - begin, major_faults() - faults);
    qsa_session_close(session);
    free(tokens);
    free(logits);
}

static bool parse(int argc, char **argv, job *j)
{
    static const char *const names[] = {"mapped", "locked", "loaded"};
    *j = (job){.prompt = 512, .decode = 32, .threads = 2};
    uint32_t *const numbers[] = {&j->prompt, &j->decode, &j->threads};
    if (argc < 2 || argc > 6)
        return false;
    j->path = argv[1];
    for (int i = 2; i < argc && i < 5; i++)
        if ((*numbers[i - 2] = (uint32_t)strtoul(argv[i], NULL, 10)) == 0)
            return false;
    for (int i = 0; argc == 6 && i < 3; i++)
        if (strcmp(argv[5], names[i]) == 0)
            j->residency = (qsa_residency)i;
    return true;
}

int main(int argc, char **argv)
{
    job j;
    if (!parse(argc, argv, &j)) {
        fprintf(stderr,
                "usage: bench_memory MODEL.gguf [prompt [decode [threads [mapped|locked|loaded]]]]: tokens, tokens\n");
        return EXIT_FAILURE;
    }
    drop_pages(j.path);
    qsa_model_options model_options;
    qsa_context_options options;
    qsa_model *model;
    qsa_context *context;
    qsa_model_info info;
    qsa_model_options_init(&model_options);
    model_options.residency = j.residency;
    const double begin = clock_seconds();
    check(qsa_model_open(j.path, &model_options, &model));
    printf("%-24s %29.2f s\n", "open", clock_seconds() - begin);
    qsa_model_get_info(model, &info);
    qsa_context_options_init(&options);
    options.context = j.prompt + j.decode;
    options.threads = j.threads;
    options.checkpoints = 0;
    check(qsa_context_create(model, &options, &context));
    run(&j, context, info.vocabulary, "cold", 1);
    run(&j, context, info.vocabulary, "weights warm", 2); /* other tokens: other rows */
    run(&j, context, info.vocabulary, "all warm", 2);
    qsa_context_destroy(context);
    qsa_model_close(model);
    return EXIT_SUCCESS;
}
