/* An OpenCL device for tests, and two stores side by side: the host's with the scalar kernels, which are the
 * definition, and one on a device. */
#ifndef DEVICE_FIXTURE_H
#define DEVICE_FIXTURE_H

#include "device/opencl/opencl.h"
#include "random_values.h"
#include "support.h"

/* Ends the test program as skipped, and says why, where there is no OpenCL device that can be used. Call it first. */
void device_or_skip(void);

/* The first usable device, opened with these options (program_folder is filled in); fails the test if that fails. */
qsa_opencl_device *device_open(qsa_opencl_options options);
/* The same through another table of functions. */
qsa_status device_open_with(const qsa_opencl_api *api, qsa_opencl_options options, qsa_opencl_device **out);
const qsa_opencl_api *device_api(void);
/* A folder that keeps compiled programs between tests. */
const char *device_folder(void);

/* ---- two stores ---- */

typedef struct twin {
    qsa_store *store;
    qsa_work work;
    qsa_refusals refusals;
    void *memory;
    uint64_t memory_bytes;
} twin;

typedef struct twins {
    qsa_config config;
    qsa_layout layout;
    qsa_rotary rotary;
    float *weights;
    twin host, device;
} twins;

/* Of the norm weights of twins that are opened from now on. */
extern float twins_weights;
void twins_open(twins *t, const qsa_config *config, qsa_opencl_device *device);
void twins_close(twins *t);
/* The same random content, finite everywhere, for every page of both. */
void twins_fill(twins *t, random_source *r);
/* Writes `bytes` into a page of both. */
void twins_put(twins *t, enum qsa_arena arena, uint32_t layer, uint32_t page, const uint8_t *bytes);
/* Bytes in which the pages of both differ. */
uint64_t twins_differ(twins *t);

/* ---- a batch ---- */

enum { BATCH_ENTRIES = 4 };

typedef struct random_batch {
    qsa_batch batch;
    qsa_batch_entry entries[BATCH_ENTRIES];
    uint32_t *tables, *directory, *token_entry; /* chunks in random order, tables that begin anywhere in one */
    qsa_query *queries;
    qsa_append_task *tasks;
    float *cos_sin;
} random_batch;

/* What an entry of a batch is to be; its pages are drawn at random, no page twice. */
typedef struct batch_plan {
    uint64_t stored;
    uint32_t tokens, first_slot;
    uint32_t window; /* groups before the last that a query sees; 0: all */
} batch_plan;

void batch_make(random_batch *b, const twins *t, const batch_plan *plans, uint32_t n, random_source *r);
void batch_free(random_batch *b);
/* Pages [begin, end) of an entry's table. */
uint64_t batch_begin_page(const qsa_batch_entry *entry);
uint64_t batch_end_page(const qsa_batch_entry *entry);

/* Random input with random strides; output with a border of marks. */
typedef struct layer_input {
    qsa_layer_io io;
    float *memory[6];
    size_t out_floats;
    uint32_t token_gap, head_gap;
} layer_input;

void input_make(layer_input *in, const twins *t, uint32_t layer, uint32_t n_tokens, bool output, random_source *r);
void input_free(layer_input *in);
float *input_element(const layer_input *in, int tensor, uint32_t token, uint32_t head, uint32_t i);

/* Runs a layer on one of the two. `parts` calls per phase. */
qsa_status twin_layer(twin *one, const qsa_batch *batch, const qsa_layer_io *io, uint32_t parts);

/* Runs a batch's layer on both and returns how many values, selections or bytes of pages differ. */
uint64_t twins_run(twins *t, random_batch *b, uint32_t layer, random_source *r);

#endif
