/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* getrusage, sysconf */
#include "console/engine_options.h"

#include "console/bus_error.h"
#include "console/device_option.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

const char ENGINE_OPTIONS_USAGE[] =
    "  -t, --threads N     1 to 1024; default: the number of processors\n"
    "      --kv TYPE       K/V cache: bf16 (default), f32, f16 or q8_0\n"
    "      --index TYPE    index keys and queries: bf16 (default) or f32\n"
    "      --chunk N       prompt tokens per forward pass, 1 to 65536; default: by model\n"
    "      --device NAME   where the QSA layers run: host (default), opencl or opencl:N; `qsa devices` lists them\n"
    "      --yarn FACTOR   YaRN: the context may be FACTOR times the file's, which is its original length; 1 to 1024\n"
    "      --mlock         keep the weights in memory; the n-gram table and the embedding stay in the file\n"
    "      --no-mmap       read the weights into memory instead of mapping them; the same two stay in the file\n";

static qsa_residency residency = QSA_RESIDENCY_MAPPED;
static const char *device_name; /* opened with the model: a wrong one is no wrong command line */

void engine_options_init(qsa_context_options *out)
{
    qsa_context_options_init(out);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    out->threads = cores < 1 ? 1 : cores > QSA_MAX_PARTS ? QSA_MAX_PARTS : (uint32_t)cores;
}

int engine_option(const options *o, int option, qsa_context_options *out)
{
    static const char *const profiles[] = {"f32", "bf16", NULL};
    static const char *const types[] = {"f32", "bf16", "f16", "q8_0", NULL}; /* in the order of qsa_kv_type */
    int choice = 0;
    bool is_good = true;
    switch (option) {
    case 't':
        is_good = options_count(o, option, 1, QSA_MAX_PARTS, &out->threads);
        break;
    case ENGINE_OPTION_CHUNK:
        is_good = options_count(o, option, 1, QSA_MAX_STEP_TOKENS, &out->chunk);
        break;
    case ENGINE_OPTION_KV:
        is_good = options_choice(o, option, types, &choice);
        out->kv = (qsa_kv_type)choice;
        break;
    case ENGINE_OPTION_INDEX:
        is_good = options_choice(o, option, profiles, &choice);
        out->index = choice == 0 ? QSA_PROFILE_F32 : QSA_PROFILE_BF16;
        break;
    case ENGINE_OPTION_YARN:
        is_good = options_number(o, option, 1, 1024, &out->yarn_factor);
        break;
    case ENGINE_OPTION_DEVICE:
        device_name = optarg;
        break;
    case ENGINE_OPTION_MLOCK:
        residency = QSA_RESIDENCY_LOCKED;
        break;
    case ENGINE_OPTION_NO_MMAP:
        residency = QSA_RESIDENCY_LOADED;
        break;
    default:
        return 0;
    }
    return is_good ? 1 : -1;
}

void engine_say(const char *command)
{
    options_say(command, "%s", qsa_engine_error());
}

void engine_say_threads(const char *command, const qsa_context *context, const qsa_context_options *asked)
{
    qsa_context_stats stats;
    qsa_context_get_stats(context, &stats);
    if (stats.threads < asked->threads)
        options_say(command,
                    "option -t: %" PRIu32 " threads are started, not %" PRIu32 ": more do not help on this machine",
                    stats.threads, asked->threads);
}

static void announce(void *user, const char *path)
{
    options_say(user, "making the built-in model, %s", path);
}

const char engine_dense_warning[] = "compress_ratios is missing or all 0 although indexer tensors exist: taken as 4; "
                                    "other engines run this file dense";

bool engine_open_model(const char *command, const char *path, qsa_weight_storage weights, qsa_model **out_model)
{
    if (device_name && !device_choose(command, device_name))
        return false;
    char name[32], *made = NULL;
    snprintf(name, sizeof name, "%s", command);
    qsa_model_options model_options;
    qsa_model_options_init(&model_options);
    model_options.weights = weights;
    model_options.residency = residency;
    qsa_status status = path ? QSA_OK : qsa_demo_model(announce, name, &made);
    if (status == QSA_OK)
        status = qsa_model_open(path ? path : made, &model_options, out_model);
    free(made);
    if (status != QSA_OK) {
        engine_say(command);
        return false;
    }
    bus_error_watch(command, *out_model);
    qsa_model_info info;
    qsa_model_get_info(*out_model, &info);
    if (info.ratios_missing)
        options_say(command, "warning: %s", engine_dense_warning);
    return true;
}

const char *engine_bytes(uint64_t bytes, char buffer[32])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit < sizeof units / sizeof units[0] - 1; unit++)
        value /= 1024;
    snprintf(buffer, 32, "%.*f %s", unit == 0 ? 0 : 1, value, units[unit]);
    return buffer;
}

static uint64_t peak_bytes(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    return (uint64_t)usage.ru_maxrss * 1024; /* Linux counts in KiB */
}

void engine_print_summary(const qsa_context *context, const qsa_model_info *info)
{
    char cache[32], state[32], activations[32], weights[32], copies[32], all[32], peak[32];
    qsa_context_stats stats;
    qsa_context_get_stats(context, &stats);
    const uint64_t planned =
        stats.plan.total_bytes + stats.state_bytes + stats.compute_bytes + info->file_bytes + info->copied_bytes;
    fprintf(stderr,
            "memory    cache %s, states %s, activations %s, mapped weights %s, copies %s: %s; peak of the process %s\n",
            engine_bytes(stats.plan.total_bytes, cache), engine_bytes(stats.state_bytes, state),
            engine_bytes(stats.compute_bytes, activations), engine_bytes(info->file_bytes, weights),
            engine_bytes(info->copied_bytes, copies), engine_bytes(planned, all), engine_bytes(peak_bytes(), peak));
    const uint64_t attended = stats.counters.k_rows_read / info->qsa.kv_heads;
    if (stats.visible_tokens > 0)
        fprintf(stderr, "attention %.2f %% of the tokens visible (%" PRIu64 " of %" PRIu64 "); kernels %s\n",
                100 * (double)attended / (double)stats.visible_tokens, attended, stats.visible_tokens, stats.isa);
}
