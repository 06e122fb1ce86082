/* A whole model that reads a ledger and answers, on the host and on the device: the same output of every QSA layer, the
 * same logits, the same text, token for token.
 *
 * usage: test_device_ledger           a small quoter, past its budget: part of every run of the tests
 *        test_device_ledger TOKENS    the demo model and a ledger of so many tokens; prints the hashes */
#define _XOPEN_SOURCE 700 /* mkstemp */
#include "fixture.h"

#include "base/hash.h"
#include "make/quoter.h"

#include <qsa_engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUESTIONS = 4, ANSWER = 24, SMALL_TOKENS = 1500 };

typedef struct outcome {
    qsa_hash hash; /* of all that crosses: selections and output of every layer, and logits */
    uint64_t digest;
    int32_t text[QUESTIONS][ANSWER];
} outcome;

static void ok(qsa_status status)
{
    if (status != QSA_OK)
        fail_msg("%s", qsa_engine_error());
}

static qsa_model_info info;

static void take_layer(void *user, uint32_t layer, uint32_t tokens, const qsa_tensors *tensors,
                       const qsa_output *output, const qsa_step *step)
{
    (void)layer, (void)tensors, (void)step;
    outcome *o = user;
    for (uint32_t t = 0; output->data != NULL && t < tokens; t++)
        for (uint32_t h = 0; h < info.qsa.q_heads; h++)
            qsa_hash_add(&o->hash, output->data + t * output->token_stride + h * output->head_stride,
                         info.qsa.head_dim * sizeof(float));
}

static void answer(qsa_model *model, qsa_session *session, const char *question, outcome *o, int32_t *text)
{
    float *logits = test_alloc(info.vocabulary, sizeof *logits);
    int32_t *tokens;
    size_t n;
    qsa_sampler *sampler;
    ok(qsa_sampler_create(NULL, info.vocabulary, &sampler));
    ok(qsa_model_encode(model, question, strlen(question), QSA_SPECIALS_NONE, &tokens, &n));
    ok(qsa_session_feed(session, tokens, n, logits, NULL, NULL));
    for (int i = 0; i < ANSWER; i++) {
        qsa_hash_add(&o->hash, logits, info.vocabulary * sizeof *logits);
        ok(qsa_sampler_next(sampler, logits, &text[i]));
        ok(qsa_session_feed(session, &text[i], 1, logits, NULL, NULL));
    }
    free(tokens);
    free(logits);
    qsa_sampler_destroy(sampler);
}

static void read_ledger(qsa_model *model, uint32_t size, qsa_device *device, uint32_t threads, outcome *o)
{
    char *ledger;
    int32_t *tokens;
    size_t n;
    qsa_question questions[QUESTIONS];
    qsa_context_options options;
    qsa_context *context;
    qsa_session *session;
    memset(o, 0, sizeof *o);
    qsa_hash_begin(&o->hash);
    ok(qsa_demo_ledger(3, size, &ledger, questions, QUESTIONS));
    qsa_context_options_init(&options);
    options.context = size + 256;
    options.threads = threads;
    options.device = device;
    ok(qsa_context_create(model, &options, &context));
    ok(qsa_session_open(context, &session));
    qsa_context_set_tap(context, &(qsa_tap){take_layer, o});
    ok(qsa_model_encode(model, ledger, strlen(ledger), QSA_SPECIALS_NONE, &tokens, &n));
    assert_int_equal(n, size);
    ok(qsa_session_feed(session, tokens, n, NULL, NULL, NULL));
    ok(qsa_session_mark(session));
    for (int q = 0; q < QUESTIONS; q++) {
        answer(model, session, questions[q].question, o, o->text[q]);
        ok(qsa_session_return(session));
    }
    o->digest = qsa_hash_end(&o->hash);
    qsa_session_close(session);
    qsa_context_destroy(context);
    free(tokens);
    free(ledger);
}

static void print(qsa_model *model, const char *where, const outcome *o)
{
    printf("%s: outputs and logits %016llx; text:", where, (unsigned long long)o->digest);
    for (int i = 0; i < ANSWER; i++) {
        const char *bytes;
        size_t n;
        ok(qsa_model_token_bytes(model, o->text[0][i], &bytes, &n));
        printf("%.*s", (int)n, n == 1 && bytes[0] == '\n' ? "|" : bytes);
    }
    printf("\n");
    fflush(stdout);
}

static uint32_t demo_tokens;

static qsa_model *open_model(void)
{
    qsa_model *model;
    if (demo_tokens > 0) {
        char *path;
        ok(qsa_demo_model(NULL, NULL, &path));
        ok(qsa_model_open(path, NULL, &model));
        free(path);
        return model;
    }
    char path[] = "device_ledger.XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    quoter_options options;
    quoter_options_small(&options);
    options.context_tokens = SMALL_TOKENS + 256;
    ok(quoter_write(path, &options));
    ok(qsa_model_open(path, NULL, &model));
    unlink(path); /* it is mapped */
    return model;
}

static void host_and_device_write_the_same_text(void **state)
{
    (void)state;
    static outcome on_host, on_device;
    qsa_opencl_device *device = device_open((qsa_opencl_options){0});
    qsa_model *model = open_model();
    qsa_model_get_info(model, &info);
    const uint32_t size = demo_tokens > 0 ? demo_tokens : SMALL_TOKENS;
    read_ledger(model, size, NULL, 2, &on_host);
    if (demo_tokens > 0)
        print(model, "host", &on_host);
    read_ledger(model, size, &device->base, 1, &on_device);
    if (demo_tokens > 0)
        print(model, "device", &on_device);
    assert_memory_equal(on_host.text, on_device.text, sizeof on_host.text);
    assert_int_equal(on_host.digest, on_device.digest);
    qsa_model_close(model);
    qsa_opencl_close(device);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_and_device_write_the_same_text),
    };
    device_or_skip();
    demo_tokens = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
