/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoint of released widths: its keys and tensors, memory while it is written and opened, what it says in any
 * chunks, and refusals that leave nothing. */
#define _POSIX_C_SOURCE 200809L

#include "support.h"

#include "file/gguf_file.h"
#include "make/released_metadata.h"
#include "make/released_vocabulary.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <dirent.h>
#include <math.h>
#include <qsa_engine.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const uint64_t MIB = 1 << 20;

static char folder[] = "released.XXXXXX";
static char path[64];            /* folder/model.gguf */
static uint64_t written_rss_kib; /* by which the process grew while it was written */
static uint64_t last_written, last_bytes, calls;

static qsa_random_model smallest(void)
{
    qsa_random_model options;
    qsa_random_model_init(&options);
    options.experts = 10;
    options.vocabulary = 1024;
    return options;
}

/* A number of kibibytes that the kernel says of this process. */
static uint64_t memory_kib(const char *name)
{
    FILE *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    char line[256];
    uint64_t kib = 0;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtoull(line + strlen(name), NULL, 10);
    fclose(file);
    assert_true(kib > 0);
    return kib;
}

static bool count_calls(void *user, uint64_t written, uint64_t bytes)
{
    (void)user;
    assert_true(written > last_written && written <= bytes);
    last_written = written;
    last_bytes = bytes;
    calls++;
    return true;
}

static int make_model(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    const qsa_random_model options = smallest();
    const uint64_t before = memory_kib("VmHWM:");
    if (qsa_random_model_write(path, &options, count_calls, NULL) != QSA_OK)
        return -1;
    written_rss_kib = memory_kib("VmHWM:") - before;
    return 0;
}

static int remove_model(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static size_t count_files(void)
{
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    size_t files = 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        files += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(directory);
    return files;
}

static qsa_model *open_model(void)
{
    qsa_model *model = NULL;
    if (qsa_model_open(path, NULL, &model) != QSA_OK)
        fail_msg("%s", qsa_engine_error());
    return model;
}

/* ---- the file ---- */

static void bytes_are_those_of_this_version(void **state)
{
    (void)state;
    const uint64_t expected = UINT64_C(0x0D46C38BB406B883);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    XXH3_state_t *hash = XXH3_createState();
    char *piece = test_alloc(MIB, 1);
    XXH3_64bits_reset(hash);
    for (size_t n; (n = fread(piece, 1, MIB, file)) > 0;)
        XXH3_64bits_update(hash, piece, n);
    const uint64_t found = XXH3_64bits_digest(hash);
    if (found != expected)
        fail_msg("the file's hash is %016llx, expected %016llx", (unsigned long long)found,
                 (unsigned long long)expected);
    free(piece);
    XXH3_freeState(hash);
    fclose(file);
}

static void who_asks_hears_of_every_block(void **state)
{
    (void)state;
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, last_bytes);
    assert_int_equal(last_written / 32, last_bytes / 32); /* but for the padding of the last tensor */
    assert_true(calls > last_bytes / (4 * MIB));
    assert_int_equal(count_files(), 1);
}

static void info_says_the_released_widths(void **state)
{
    (void)state;
    qsa_model *model = open_model();
    qsa_model_info i;
    qsa_model_get_info(model, &i);
    const struct {
        const char *name;
        uint64_t found, expected;
    } facts[] = {
        {"layers", i.layers, 4},
        {"qsa_layers", i.qsa.layers, 1},
        {"embedding", i.embedding, 2560},
        {"context", i.context, 262144},
        {"vocabulary", i.vocabulary, 1024},
        {"q_heads", i.qsa.q_heads, 24},
        {"kv_heads", i.qsa.kv_heads, 2},
        {"head_dim", i.qsa.head_dim, 256},
        {"index_heads", i.qsa.index_heads, 4},
        {"index_dim", i.qsa.index_dim, 128},
        {"budget", i.qsa.budget, 2048},
        {"ratio", i.qsa.ratio, 4},
        {"rotary_dim", i.qsa.rotary_dim, 64},
        {"sections[0]", i.qsa.sections[0], 11},
        {"sections[1]", i.qsa.sections[1], 11},
        {"sections[2]", i.qsa.sections[2], 10},
        {"experts", i.experts, 10},
        {"experts_used", i.experts_used, 10},
        {"streams", i.streams, 4},
        {"ngram_layers", i.ngram_layers, 1},
        {"ratios_missing", i.ratios_missing, 0},
        {"eos", (uint64_t)i.eos, 1024 - 276},
    };
    for (size_t f = 0; f < COUNT(facts); f++)
        if (facts[f].found != facts[f].expected)
            fail_msg("%s is %llu, expected %llu", facts[f].name, (unsigned long long)facts[f].found,
                     (unsigned long long)facts[f].expected);
    assert_string_equal(i.main_type, "q8_0");
    assert_string_equal(i.tokenizer, "qwen35");
    assert_true(i.qsa.theta == 1e7f && i.qsa.eps == 1e-6f);
    qsa_model_close(model);
}

/* ---- memory ---- */

static void writing_holds_a_block_of_rows(void **state)
{
    (void)state;
    if (written_rss_kib * 1024 > 32 * MIB)
        fail_msg("writing took %llu KiB of memory", (unsigned long long)written_rss_kib);
}

/* Memory that is the process's own; pages of the mapped file do not count. */
static uint64_t own_bytes(void)
{
    return memory_kib("RssAnon:") * 1024;
}

static void expect_at_most(const char *what, uint64_t found, uint64_t most)
{
    if (found > most)
        fail_msg("%s: %llu bytes, expected at most %llu", what, (unsigned long long)found, (unsigned long long)most);
}

static void memory_is_the_mapped_file_and_the_plan(void **state)
{
    (void)state;
    const uint64_t before = own_bytes();
    qsa_model *model = open_model();
    expect_at_most("an open model", own_bytes() - before, 16 * MIB);

    qsa_context_options options;
    qsa_context *context;
    qsa_session *session;
    qsa_context_stats stats;
    int32_t tokens[64];
    for (int i = 0; i < 64; i++)
        tokens[i] = i;
    qsa_context_options_init(&options);
    options.context = 4096;
    options.chunk = 64;
    assert_int_equal(qsa_context_create(model, &options, &context), QSA_OK);
    assert_int_equal(qsa_session_open(context, &session), QSA_OK);
    float *logits = test_alloc(1024, sizeof *logits);
    assert_int_equal(qsa_session_feed(session, tokens, 64, logits, NULL, NULL), QSA_OK);
    qsa_context_get_stats(context, &stats);
    const uint64_t planned = stats.plan.total_bytes + stats.state_bytes + stats.compute_bytes;
    expect_at_most("a context in use", own_bytes() - before, planned + 32 * MIB);
    free(logits);
    qsa_session_close(session);
    qsa_context_destroy(context);
    qsa_model_close(model);
}

/* ---- what it says ---- */

enum { TOKENS = 24, VOCABULARY = 1024 };

/* Logits of every token, fed in batches of `chunk`. */
static void run(const qsa_model *model, uint32_t chunk, float *logits)
{
    qsa_context_options options;
    qsa_context *context;
    qsa_session *session;
    qsa_context_options_init(&options);
    options.context = 64;
    options.chunk = chunk;
    assert_int_equal(qsa_context_create(model, &options, &context), QSA_OK);
    assert_int_equal(qsa_session_open(context, &session), QSA_OK);
    int32_t tokens[TOKENS];
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (i * 89 + 7) % VOCABULARY;
    for (uint32_t at = 0, n; at < TOKENS; at += n) {
        n = chunk < TOKENS - at ? chunk : TOKENS - at;
        const qsa_batch_item item = {session, tokens + at, n, n, logits + (size_t)at * VOCABULARY};
        if (qsa_batch_run(context, &item, 1) != QSA_OK)
            fail_msg("%s", qsa_engine_error());
    }
    qsa_session_close(session);
    qsa_context_destroy(context);
}

static size_t likeliest(const float *logits)
{
    size_t best = 0;
    for (size_t i = 1; i < VOCABULARY; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

static void same_logits_in_any_chunks_and_of_ordinary_size(void **state)
{
    (void)state;
    qsa_model *model = open_model();
    float *whole = test_alloc((size_t)TOKENS * VOCABULARY, sizeof *whole);
    float *parts = test_alloc((size_t)TOKENS * VOCABULARY, sizeof *parts);
    run(model, TOKENS, whole);
    run(model, 5, parts);
    test_same_floats("logits", whole, parts, (size_t)TOKENS * VOCABULARY);
    size_t changes = 0;
    for (size_t t = 0; t < TOKENS; t++) {
        double squares = 0;
        for (size_t i = 0; i < VOCABULARY; i++)
            squares += (double)whole[t * VOCABULARY + i] * whole[t * VOCABULARY + i];
        const double size = sqrt(squares / VOCABULARY);
        if (!(size > 0.5 && size < 10))
            fail_msg("the logits of token %zu have a root mean square of %g", t, size);
        changes += t > 0 && likeliest(whole + t * VOCABULARY) != likeliest(whole + (t - 1) * VOCABULARY);
    }
    assert_true(changes > TOKENS / 2); /* what comes next depends on what came before */
    free(whole);
    free(parts);
    qsa_model_close(model);
}

static void tokens_are_bytes_and_their_merges(void **state)
{
    (void)state;
    static const char text[] = "A na\xc3\xafve \x01\x01 text; \x01\x02\x01\x03 don't.";
    qsa_model *model = open_model();
    int32_t *tokens;
    size_t n, length = 0, merged = 0;
    char again[sizeof text];
    assert_int_equal(qsa_model_encode(model, text, sizeof text - 1, QSA_SPECIALS_ALL, &tokens, &n), QSA_OK);
    for (size_t i = 0; i < n; i++) {
        const char *bytes;
        size_t count;
        assert_int_equal(qsa_model_token_bytes(model, tokens[i], &bytes, &count), QSA_OK);
        assert_true(length + count < sizeof text);
        memcpy(again + length, bytes, count);
        length += count;
        merged += tokens[i] >= 256;
        assert_true(tokens[i] < VOCABULARY - 276);
    }
    assert_int_equal(length, sizeof text - 1);
    assert_memory_equal(again, text, length);
    assert_int_equal(merged, 3); /* the pairs of bytes below 2 */
    free(tokens);
    assert_int_equal(qsa_model_encode(model, "<|endoftext|>", 13, QSA_SPECIALS_ALL, &tokens, &n), QSA_OK);
    assert_int_equal(n, 1);
    assert_int_equal(tokens[0], VOCABULARY - 276);
    free(tokens);
    qsa_model_close(model);
}

/* ---- the whole shape, without its bytes ---- */

static qsa_random_model released(void)
{
    qsa_random_model options;
    qsa_random_model_init(&options);
    options.layers = 48;
    options.experts = 512;
    options.vocabulary = 248320;
    return options;
}

static const checkpoint_tensor *find(const released_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->tensor_count; i++)
        if (strcmp(plan->tensors[i].shape.name, name) == 0)
            return &plan->tensors[i].shape;
    fail_msg("no tensor %s", name);
    return NULL;
}

static void whole_shape_has_every_tensor(void **state)
{
    (void)state;
    enum { E = 2560, WIDE = 4 * E, V = 248320 };
    static const struct {
        const char *name;
        int64_t dims[3];
        enum ggml_type type; /* of a q8_0 file */
    } expected[] = {
        {"token_embd.weight", {E, V, 0}, GGML_TYPE_Q8_0},
        {"output.weight", {E, V, 0}, GGML_TYPE_Q8_0},
        {"output_hc_norm.weight", {WIDE, 0, 0}, GGML_TYPE_F32},
        {"output_hc_down.weight", {WIDE, 320, 0}, GGML_TYPE_BF16},
        {"output_hc_up.weight", {320, WIDE, 0}, GGML_TYPE_BF16},
        {"blk.47.hc_ffn_inject.weight", {WIDE, 4, 0}, GGML_TYPE_BF16},
        {"blk.47.ffn_gate_inp.weight", {E, 512, 0}, GGML_TYPE_F32},
        {"blk.46.ffn_up_exps.weight", {E, 640, 512}, GGML_TYPE_Q8_0},
        {"blk.46.ffn_down_exps.weight", {640, E, 512}, GGML_TYPE_Q8_0},
        {"blk.46.ffn_gate_inp_shexp.weight", {E, 0, 0}, GGML_TYPE_F32},
        {"blk.46.ffn_down_shexp.weight", {640, E, 0}, GGML_TYPE_Q8_0},
        {"blk.47.attn_q.weight", {E, 12288, 0}, GGML_TYPE_Q8_0},
        {"blk.47.attn_v.weight", {E, 512, 0}, GGML_TYPE_Q8_0},
        {"blk.47.attn_output.weight", {6144, E, 0}, GGML_TYPE_Q8_0},
        {"blk.47.attn_q_norm.weight", {256, 0, 0}, GGML_TYPE_F32},
        {"blk.47.indexer.q_proj.weight", {E, 512, 0}, GGML_TYPE_Q8_0},
        {"blk.47.indexer.k_proj.weight", {E, 128, 0}, GGML_TYPE_Q8_0},
        {"blk.46.attn_qkv.weight", {E, 10240, 0}, GGML_TYPE_Q8_0},
        {"blk.46.attn_gate.weight", {E, 6144, 0}, GGML_TYPE_Q8_0},
        {"blk.46.ssm_conv1d.weight", {4, 10240, 0}, GGML_TYPE_F32},
        {"blk.46.ssm_alpha.weight", {E, 48, 0}, GGML_TYPE_BF16},
        {"blk.46.ssm_out.weight", {6144, E, 0}, GGML_TYPE_Q8_0},
        {"blk.1.ple_key.weight", {E, WIDE, 0}, GGML_TYPE_Q8_0},
        {"blk.1.ple_conv1d.weight", {4, WIDE, 0}, GGML_TYPE_F32},
    };
    const qsa_random_model options = released();
    released_plan plan;
    assert_int_equal(released_plan_init(&plan, &options), QSA_OK);
    for (size_t i = 0; i < COUNT(expected); i++) {
        const checkpoint_tensor *t = find(&plan, expected[i].name);
        for (int d = 0; d < 3; d++)
            assert_int_equal(t->dims[d], expected[i].dims[d]);
        assert_int_equal(t->type, expected[i].type);
    }
    assert_int_equal(plan.tensor_count, 6 + 48 * 16 + 12 * 10 + 36 * 9 + 6);
    assert_int_equal(find(&plan, "per_layer_token_embd.weight")->dims[1], plan.ngram_rows);
    released_plan_release(&plan);
}

static void ngram_heads_are_different_primes(void **state)
{
    (void)state;
    const qsa_random_model options = released();
    released_plan plan;
    assert_int_equal(released_plan_init(&plan, &options), QSA_OK);
    uint64_t rows = 0;
    for (int h = 0; h < 16; h++) {
        assert_true(plan.ngram_sizes[h] > (h == 0 ? 248319 : plan.ngram_sizes[h - 1]));
        for (uint32_t d = 2; d < 1000; d++)
            assert_int_not_equal(plan.ngram_sizes[h] % d, 0);
        rows += plan.ngram_sizes[h];
    }
    assert_int_equal(rows, plan.ngram_rows);
    released_plan_release(&plan);
}

static void whole_vocabulary_ends_where_the_released_one_does(void **state)
{
    (void)state;
    const qsa_random_model options = released();
    released_plan plan;
    assert_int_equal(released_plan_init(&plan, &options), QSA_OK);
    struct gguf_context *file = gguf_init_empty();
    assert_int_equal(released_set_keys(&plan, file), QSA_OK);
    assert_int_equal(gguf_get_val_u32(file, gguf_find_key(file, "tokenizer.ggml.eos_token_id")), 248044);
    assert_int_equal(gguf_get_val_u32(file, gguf_find_key(file, "qwen4exp.ple.eos_token_id")), 248044);
    assert_int_equal(gguf_get_val_u32(file, gguf_find_key(file, "qwen4exp.ple.image_token_id")), 248056);
    const int64_t tokens = gguf_find_key(file, "tokenizer.ggml.tokens");
    assert_int_equal(gguf_get_arr_n(file, tokens), 248320);
    assert_string_equal(gguf_get_arr_str(file, tokens, 256 + 'a' * 256 + 'b'), "ab");

    assert_string_equal(gguf_get_arr_str(file, tokens, 248044), "<|endoftext|>");
    assert_string_equal(gguf_get_arr_str(file, tokens, 248319), "<|special_275|>");
    const int64_t merges = gguf_find_key(file, "tokenizer.ggml.merges");
    assert_int_equal(gguf_get_arr_n(file, merges), 248320 - 276 - 256);
    assert_string_equal(gguf_get_arr_str(file, merges, 'a' * 256 + 'b'), "a b");
    gguf_free(file);
    released_plan_release(&plan);
}

#define T(type) GGML_TYPE_##type

static void every_matrix_has_the_type_of_its_recipe(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum ggml_type large, values, more, head, ngram, small;
    } types[] = {
        /* clang-format off */
        {"q8_0", T(Q8_0), T(Q8_0), T(Q8_0), T(Q8_0), T(Q8_0), T(BF16)},
        {"q4_0", T(Q4_0), T(Q4_0), T(Q4_0), T(Q4_0), T(Q4_0), T(BF16)},
        {"bf16", T(BF16), T(BF16), T(BF16), T(BF16), T(BF16), T(BF16)},
        {"f16", T(F16), T(F16), T(F16), T(F16), T(F16), T(F16)},
        {"f32", T(F32), T(F32), T(F32), T(F32), T(F32), T(F32)},
        {"q3_k_m", T(Q3_K), T(IQ4_NL), T(Q5_1), T(Q6_K), T(IQ4_NL), T(BF16)},
        {"q4_k_m", T(Q4_K), T(Q5_1), T(Q8_0), T(Q6_K), T(IQ4_NL), T(BF16)},
        {"q5_k_m", T(Q5_K), T(Q5_1), T(Q8_0), T(Q6_K), T(Q5_1), T(BF16)},
        {"q6_k", T(Q6_K), T(Q8_0), T(Q8_0), T(Q6_K), T(Q8_0), T(BF16)},
        {"iq4_xs", T(IQ4_XS), T(IQ4_NL), T(Q5_1), T(Q6_K), T(IQ4_NL), T(BF16)},
        /* clang-format on */
    };
    assert_int_equal(COUNT(types), QSA_RANDOM_TYPE_COUNT);
    for (size_t i = 0; i < COUNT(types); i++) {
        qsa_random_model options = smallest();
        released_plan plan;
        options.type = (qsa_random_type)i;
        assert_string_equal(qsa_random_type_name(options.type), types[i].name);
        assert_int_equal(released_plan_init(&plan, &options), QSA_OK);
        assert_int_equal(find(&plan, "blk.3.ffn_gate_exps.weight")->type, types[i].large);
        assert_int_equal(find(&plan, "blk.1.ffn_down_exps.weight")->type, types[i].values); /* rows of 640 */
        assert_int_equal(find(&plan, "blk.3.ffn_down_exps.weight")->type, types[i].more);
        assert_int_equal(find(&plan, "output.weight")->type, types[i].head);
        assert_int_equal(find(&plan, "per_layer_token_embd.weight")->type, types[i].ngram); /* rows of 160 */
        assert_int_equal(find(&plan, "blk.3.hc_attn_up.weight")->type, types[i].small);
        assert_int_equal(find(&plan, "blk.3.attn_k_norm.weight")->type, GGML_TYPE_F32);
        released_plan_release(&plan);
    }
}

/* ffn_gate_exps of a layer has 64,000 pieces of 256 weights: of 256 kinds, all of which come. */
static void slow_types_are_picks_from_a_pool(void **state)
{
    (void)state;
    enum { POOL = 256, PIECES = 20000, PIECE = 256 };
    char mixed[96];
    snprintf(mixed, sizeof mixed, "%s/mixed.gguf", folder);
    qsa_random_model options = smallest();
    options.type = QSA_RANDOM_Q4_K_M;
    assert_int_equal(qsa_random_model_write(mixed, &options, NULL, NULL), QSA_OK);
    gguf_file *file;
    assert_int_equal(gguf_file_open(mixed, &file), QSA_OK);
    const gguf_file_tensor *tensor = gguf_file_find(file, "blk.3.ffn_gate_exps.weight");
    const size_t bytes = ggml_row_size(tensor->type, PIECE);
    const char *data = tensor->data, *kinds[POOL];
    size_t n = 0, repeats = 0;
    for (size_t p = 0; p < PIECES; p++) {
        size_t kind = 0;
        while (kind < n && memcmp(kinds[kind], data + p * bytes, bytes) != 0)
            kind++;
        assert_true(kind < POOL);
        if (kind == n)
            kinds[n++] = data + p * bytes;
        repeats += p > 0 && memcmp(data + (p - 1) * bytes, data + p * bytes, bytes) == 0;
    }
    assert_int_equal(n, POOL);
    assert_in_range(repeats, 1, 4 * PIECES / POOL);
    gguf_file_close(file);
    unlink(mixed);
}

/* Logits [1024] after a few tokens; the caller frees them. */
static float *logits_of(const char *file)
{
    static const int32_t tokens[] = {5, 600, 17, 3, 700};
    qsa_model *model = NULL;
    qsa_context *context = NULL;
    qsa_session *session = NULL;
    if (qsa_model_open(file, NULL, &model) != QSA_OK)
        fail_msg("%s", qsa_engine_error());
    qsa_context_options options;
    qsa_context_options_init(&options);
    options.context = 64;
    assert_int_equal(qsa_context_create(model, &options, &context), QSA_OK);
    assert_int_equal(qsa_session_open(context, &session), QSA_OK);
    float *logits = malloc(1024 * sizeof *logits);
    assert_non_null(logits);
    assert_int_equal(qsa_session_feed(session, tokens, COUNT(tokens), logits, NULL, NULL), QSA_OK);
    for (int i = 0; i < 1024; i++)
        assert_true(isfinite(logits[i]));
    qsa_context_destroy(context);
    qsa_model_close(model);
    return logits;
}

static void shards_say_the_same_as_one_file(void **state)
{
    (void)state;
    char one[96], first[128], name[128];
    snprintf(one, sizeof one, "%s/mixed.gguf", folder);
    snprintf(first, sizeof first, "%s/mixed-00001-of-00004.gguf", folder);
    qsa_random_model options = smallest();
    options.type = QSA_RANDOM_Q4_K_M;
    options.ngram_rows = 1024;
    assert_int_equal(qsa_random_model_write(one, &options, NULL, NULL), QSA_OK);
    options.shards = 4;
    assert_int_equal(qsa_random_model_write(one, &options, NULL, NULL), QSA_OK);
    assert_int_equal(count_files(), 6);
    float *x = logits_of(one), *y = logits_of(first);
    assert_memory_equal(x, y, 1024 * sizeof *x);
    free(x);
    free(y);
    unlink(one);
    for (int i = 1; i <= 4; i++) {
        snprintf(name, sizeof name, "%s/mixed-%05d-of-00004.gguf", folder, i);
        assert_int_equal(unlink(name), 0);
    }
}

static bool stop_at_third(void *user, uint64_t written, uint64_t bytes)
{
    int *left = user;
    (void)written;
    (void)bytes;
    return --*left > 0;
}

static void interrupted_shards_leave_nothing(void **state)
{
    (void)state;
    char one[96];
    int left = 3;
    snprintf(one, sizeof one, "%s/mixed.gguf", folder);
    qsa_random_model options = smallest();
    options.shards = 3;
    assert_int_equal(qsa_random_model_write(one, &options, stop_at_third, &left), QSA_E_CANCELLED);
    assert_int_equal(count_files(), 1);
}

/* ---- refusals ---- */

static void assert_one_line(const char *part)
{
    const char *detail = qsa_engine_error();
    if (!strstr(detail, part))
        fail_msg("\"%s\" does not name %s", detail, part);
    assert_null(strchr(detail, '\n'));
}

static void bad_options_are_refused_by_name(void **state)
{
    (void)state;
    const qsa_random_model ok = smallest();
    struct {
        const char *name;
        qsa_random_model options;
    } cases[16];
    size_t n = 0;
#define BAD(field, bad) (cases[n].name = #field, cases[n].options = ok, cases[n].options.field = (bad), n++)
    BAD(size_bytes, 0);
    BAD(layers, 0);
    BAD(layers, 3);
    BAD(layers, 1025);
    BAD(experts, 9);
    BAD(experts, 4097);
    BAD(vocabulary, 1023);
    BAD(vocabulary, 248321);
    BAD(type, QSA_RANDOM_TYPE_COUNT);
    BAD(ngram_rows, 1023);
    BAD(shards, 0);
    BAD(shards, 100);
#undef BAD
    char other[96];
    snprintf(other, sizeof other, "%s/other.gguf", folder);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(qsa_random_model_write(other, &cases[i].options, NULL, NULL), QSA_E_ARGUMENT);
        assert_one_line(cases[i].name);
        assert_int_equal(count_files(), 1);
    }
}

static void interrupted_writing_leaves_the_old_file(void **state)
{
    (void)state;
    const qsa_random_model options = smallest();
    struct stat before, after;
    int left = 3;
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(qsa_random_model_write(path, &options, stop_at_third, &left), QSA_E_CANCELLED);
    assert_one_line("interrupted");
    assert_int_equal(left, 0);
    assert_int_equal(count_files(), 1);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
}

static bool die_at_third(void *user, uint64_t written, uint64_t bytes)
{
    int *left = user;
    (void)written;
    (void)bytes;
    if (--*left == 0)
        kill(getpid(), SIGKILL);
    return true;
}

/* kill -9 in the middle of the work: a file without a name is gone with its process. */
static void killed_writing_leaves_nothing(void **state)
{
    (void)state;
    const qsa_random_model options = smallest();
    struct stat before, after;
    int left = 3, ended = 0;
    assert_int_equal(stat(path, &before), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)qsa_random_model_write(path, &options, die_at_third, &left);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(count_files(), 1);
}

static void full_disk_leaves_nothing(void **state)
{
    (void)state;
    const qsa_random_model options = smallest();
    char other[96];
    snprintf(other, sizeof other, "%s/other.gguf", folder);
    struct rlimit unlimited, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    tight = unlimited;
    tight.rlim_cur = 4 * MIB;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    const qsa_status status = qsa_random_model_write(other, &options, NULL, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(status, QSA_E_IO);
    assert_one_line("cannot write");
    assert_int_equal(count_files(), 1);
}

static bool never_asked(void *user, uint64_t written, uint64_t bytes)
{
    (void)user;
    (void)written;
    (void)bytes;
    fail_msg("something was written");
    return false;
}

static void only_a_file_is_replaced(void **state)
{
    (void)state;
    const qsa_random_model options = smallest();
    assert_int_equal(qsa_random_model_write(folder, &options, never_asked, NULL), QSA_E_IO);
    assert_one_line("not a regular file");
    assert_int_equal(qsa_random_model_write("", &options, never_asked, NULL), QSA_E_IO);
    assert_one_line("without a name");
    assert_int_equal(count_files(), 1);
}

static void more_than_the_disk_holds_is_refused_at_once(void **state)
{
    (void)state;
    qsa_random_model options = smallest();
    char other[96];
    snprintf(other, sizeof other, "%s/other.gguf", folder);
    options.layers = 1024;
    options.experts = 4096;
    options.type = QSA_RANDOM_F32; /* 84 TB */
    assert_int_equal(qsa_random_model_write(other, &options, NULL, NULL), QSA_E_IO);
    assert_one_line("are free");
    assert_int_equal(count_files(), 1);
    snprintf(other, sizeof other, "%s/missing/other.gguf", folder);
    options = smallest();
    assert_int_equal(qsa_random_model_write(other, &options, NULL, NULL), QSA_E_IO);
    assert_one_line(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writing_holds_a_block_of_rows),
        cmocka_unit_test(memory_is_the_mapped_file_and_the_plan),
        cmocka_unit_test(bytes_are_those_of_this_version),
        cmocka_unit_test(who_asks_hears_of_every_block),
        cmocka_unit_test(info_says_the_released_widths),
        cmocka_unit_test(same_logits_in_any_chunks_and_of_ordinary_size),
        cmocka_unit_test(tokens_are_bytes_and_their_merges),
        cmocka_unit_test(whole_shape_has_every_tensor),
        cmocka_unit_test(ngram_heads_are_different_primes),
        cmocka_unit_test(whole_vocabulary_ends_where_the_released_one_does),
        cmocka_unit_test(every_matrix_has_the_type_of_its_recipe),
        cmocka_unit_test(slow_types_are_picks_from_a_pool),
        cmocka_unit_test(shards_say_the_same_as_one_file),
        cmocka_unit_test(interrupted_shards_leave_nothing),
        cmocka_unit_test(bad_options_are_refused_by_name),
        cmocka_unit_test(interrupted_writing_leaves_the_old_file),
        cmocka_unit_test(killed_writing_leaves_nothing),
        cmocka_unit_test(full_disk_leaves_nothing),
        cmocka_unit_test(only_a_file_is_replaced),
        cmocka_unit_test(more_than_the_disk_holds_is_refused_at_once),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
