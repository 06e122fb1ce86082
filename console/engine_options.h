/* SPDX-License-Identifier: Apache-2.0 */
/* Options that the commands with a model share, and what they print at the end. */
#ifndef QSA_CONSOLE_ENGINE_OPTIONS_H
#define QSA_CONSOLE_ENGINE_OPTIONS_H

#include "console/options.h"

#include <qsa_engine.h>

/* Vals of the shared long options; those of a command begin at ENGINE_OPTION_END. */
enum {
    ENGINE_OPTION_KV = 256,
    ENGINE_OPTION_INDEX,
    ENGINE_OPTION_CHUNK,
    ENGINE_OPTION_DEVICE,
    ENGINE_OPTION_MLOCK,
    ENGINE_OPTION_NO_MMAP,
    ENGINE_OPTION_YARN,
    ENGINE_OPTION_END
};

/* clang-format off */
#define ENGINE_OPTIONS                                     \
    {"threads", required_argument, NULL, 't'},             \
    {"kv", required_argument, NULL, ENGINE_OPTION_KV},     \
    {"index", required_argument, NULL, ENGINE_OPTION_INDEX}, \
    {"chunk", required_argument, NULL, ENGINE_OPTION_CHUNK}, \
    {"device", required_argument, NULL, ENGINE_OPTION_DEVICE}, \
    {"mlock", no_argument, NULL, ENGINE_OPTION_MLOCK},     \
    {"no-mmap", no_argument, NULL, ENGINE_OPTION_NO_MMAP},   \
    {"yarn", required_argument, NULL, ENGINE_OPTION_YARN}
/* clang-format on */

extern const char ENGINE_OPTIONS_USAGE[];

/* Defaults: threads = cores. */
void engine_options_init(qsa_context_options *out);

/* Takes a shared option: 1 taken, 0 none of them, -1 after saying what is wrong. */
int engine_option(const options *o, int option, qsa_context_options *out);

/* What to say of a file whose compress_ratios are missing or all 0. */
extern const char engine_dense_warning[];

/* Opens the device that an option named, and the model at path, or the built-in one (made first, which is announced on
 * stderr) if path is NULL. A context of it belongs on device_in_use(). False after saying what is wrong. */
bool engine_open_model(const char *command, const char *path, qsa_weight_storage weights, qsa_model **out_model);

/* Says on stderr if the context started fewer threads than were asked for. */
void engine_say_threads(const char *command, const qsa_context *context, const qsa_context_options *asked);

/* Says what the engine's last failure was. */
void engine_say(const char *command);

/* Two lines on stderr: memory, and how sparse the attention was. */
void engine_print_summary(const qsa_context *context, const qsa_model_info *info);

/* "1.5 GiB" */
const char *engine_bytes(uint64_t bytes, char buffer[32]);

#endif
