/* SPDX-License-Identifier: Apache-2.0 */
/* The peer's side of compare.py: runs llama.cpp on a text with the commands of ours.c. */
#include <llama.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <time.h>
#include <vector>

enum { BATCH = 2048, MICRO_BATCH = 512 };

struct moment {
    double wall, processor; /* seconds */
};

static double seconds_of(clockid_t clock)
{
    timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static moment moment_now()
{
    return {seconds_of(CLOCK_MONOTONIC), seconds_of(CLOCK_PROCESS_CPUTIME_ID)};
}

static void print_since(const moment &begin)
{
    const moment end = moment_now();
    printf("%.9f %.9f\n", end.wall - begin.wall, end.processor - begin.processor);
}

static void fail(const char *what)
{
    fprintf(stderr, "compare_peer: %s\n", what);
    exit(EXIT_FAILURE);
}

static void say_errors(ggml_log_level level, const char *text, void *)
{
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static std::string read_file(const char *path)
{
    std::string text;
    FILE *file = fopen(path, "rb");
    if (!file)
        fail("cannot open the text");
    char piece[1 << 16];
    for (size_t n; (n = fread(piece, 1, sizeof piece, file)) > 0;)
        text.append(piece, n);
    fclose(file);
    return text;
}

struct peer {
    llama_model *model;
    llama_context *context;
    const llama_vocab *vocab;
    std::vector<llama_token> tokens; /* of the text */
    size_t at = 0;                   /* tokens fed */
};

static void tokenize(peer &p, const std::string &text)
{
    p.tokens.resize(text.size() + 1);
    const int n = llama_tokenize(p.vocab, text.data(), (int32_t)text.size(), p.tokens.data(), (int32_t)p.tokens.size(),
                                 false, false);
    if (n < 0)
        fail("cannot tokenize the text");
    p.tokens.resize((size_t)n);
}

static peer open_peer(const char *path, int threads, uint32_t context)
{
    peer p;
    llama_log_set(say_errors, nullptr);
    llama_backend_init();
    p.model = llama_model_load_from_file(path, llama_model_default_params());
    if (!p.model)
        fail("cannot load the model");
    llama_context_params params = llama_context_default_params();
    params.n_ctx = context;
    params.n_batch = BATCH;
    params.n_ubatch = MICRO_BATCH;
    params.n_threads = params.n_threads_batch = threads;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    p.context = llama_init_from_model(p.model, params);
    if (!p.context)
        fail("cannot make a context");
    p.vocab = llama_model_get_vocab(p.model);
    return p;
}

/* At most BATCH tokens; the last one's logits are computed. */
static void decode(peer &p, llama_token *tokens, size_t n)
{
    if (llama_decode(p.context, llama_batch_get_one(tokens, (int32_t)n)) != 0)
        fail("cannot decode");
    llama_synchronize(p.context);
}

static void next(peer &p, size_t n)
{
    if (n > p.tokens.size() - p.at)
        fail("the text has no more tokens");
    for (size_t end = p.at + n; p.at < end;) {
        const size_t some = std::min<size_t>(BATCH, end - p.at);
        decode(p, p.tokens.data() + p.at, some);
        p.at += some;
    }
}

static llama_token likeliest(const peer &p)
{
    const float *logits = llama_get_logits_ith(p.context, -1);
    return (llama_token)(std::max_element(logits, logits + llama_vocab_n_tokens(p.vocab)) - logits);
}

static void say(peer &p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        llama_token token = likeliest(p);
        printf("%s%d", i ? " " : "", (int)token);
        decode(p, &token, 1);
    }
    putchar('\n');
}

static uint64_t hash_tokens(const std::vector<llama_token> &tokens)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (llama_token token : tokens)
        hash = (hash ^ (uint32_t)token) * UINT64_C(0x100000001B3);
    return hash;
}

static void read_or_step(peer &p, bool is_step, size_t n)
{
    const moment begin = moment_now();
    const size_t each = is_step ? 1 : n;
    for (size_t done = 0; done < n; done += each)
        next(p, each);
    print_since(begin);
}

/* The file has the tokens fed so far beside the state. */
static void save(const peer &p, const std::string &path)
{
    if (!llama_state_save_file(p.context, path.c_str(), p.tokens.data(), p.at))
        fail("cannot save the state");
    printf("%zu\n", p.at);
}

static void load(peer &p, const std::string &path)
{
    std::vector<llama_token> there(p.tokens.size());
    llama_memory_clear(llama_get_memory(p.context), true);
    if (!llama_state_load_file(p.context, path.c_str(), there.data(), there.size(), &p.at))
        fail("cannot load the state");
    printf("%zu\n", p.at);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        fail("usage: compare_peer MODEL TEXT THREADS CONTEXT STATES");
    peer p = open_peer(argv[1], atoi(argv[3]), (uint32_t)atoi(argv[4]));
    tokenize(p, read_file(argv[2]));
    printf("%zu %016" PRIx64 "\n", p.tokens.size(), hash_tokens(p.tokens));
    fflush(stdout);
    char word[16];
    size_t n;
    while (scanf("%15s %zu", word, &n) == 2) {
        const std::string command = word, state = std::string(argv[5]) + "/peer-" + std::to_string(n);
        if (command == "say")
            say(p, n);
        else if (command == "save")
            save(p, state);
        else if (command == "load")
            load(p, state);
        else
            read_or_step(p, command == "step", n);
        fflush(stdout);
    }
    llama_free(p.context);
    llama_model_free(p.model);
    return EXIT_SUCCESS;
}
