/* SPDX-License-Identifier: Apache-2.0 */
/* A model reads text and continues it: one context, one session, one sampler. What goes wrong is said on standard error
 * in the name of the command; the functions then return false. */
#ifndef QSA_CONSOLE_GENERATION_H
#define QSA_CONSOLE_GENERATION_H

#include <qsa_engine.h>
#include <signal.h>

typedef struct generation_options {
    qsa_context_options context; /* its device is ignored: the chosen one is taken (device_option.h) */
    qsa_sampler_options sampler;
    const char *load;         /* a saved session to go on from; NULL: an empty one */
    const char *const *stops; /* [n_stops] strings that end the text, none empty; they are not written */
    size_t n_stops;
    bool ignores_ends;   /* end tokens are never chosen */
    bool shows_controls; /* control tokens are written, not left out */
    unsigned given;      /* bit option - SAMPLING_TEMP: the command line has that option (sampling_options.h) */
    bool has_seed;       /* sampler.seed counts, not the random numbers saved with the session */
} generation_options;

typedef struct generation {
    const char *command;
    const qsa_model *model;
    qsa_model_info info;
    const volatile sig_atomic_t *interrupted; /* not 0: stop after the running chunk or token; NULL: never */
    uint32_t limit;                           /* tokens that the context holds */
    qsa_context *context;
    qsa_session *session;
    qsa_sampler *sampler;
    float *logits; /* [vocabulary] after the last token */
    const generation_options *options;
    qsa_stops *stops;
    char cut[8]; /* bytes of a character that is not whole yet */
    size_t n_cut;

    /* what was done */
    uint64_t loaded, read, generated,
        decoded; /* tokens; decoded: of the generated, those that went through the model */
    double load_seconds, read_seconds, generate_seconds;
    const char *ending; /* why generation stopped; "": as many tokens as were asked for; NULL: it did not */
} generation;

/* Creates context, sampler and session. Close g whatever is returned. options must outlive g. */
bool generation_open(generation *g, const char *command, const qsa_model *model, const generation_options *options);
void generation_close(generation *g);

/* Reads tokens, with a bar on a terminal if that takes more than one chunk. Interrupted: true, with g->read < n. */
bool generation_read(generation *g, const int32_t *tokens, size_t n);

/* The logits after what the session holds already, for going on without reading anything. */
bool generation_recall(generation *g);

/* Generates at most `tokens` tokens and writes them to standard output as whole characters. keeps_last: the session is
 * to hold the last one, too, at the cost of one more pass. */
bool generation_write(generation *g, uint32_t tokens, bool keeps_last);

#endif
