/* SPDX-License-Identifier: Apache-2.0 */
#include "console/clock.h"
#include "console/device_option.h"
#include "console/options.h"
#include "verify/checks.h"
#include "verify/verify.h"

#include <inttypes.h>
#include <stdio.h>

static const struct check {
    const char *name;
    check_function *run;
} checks[] = {
    {"selected groups = the naive implementation", check_selected_groups},
    {"equal scores: the oldest group wins", check_equal_scores},
    {"selected tokens: budget and tail, ascending", check_rows},
    {"selection through 262,144 tokens", check_deep_selection},
    {"dense parity up to the cut at 2,051", check_dense_parity},
    {"outputs = the naive implementation", check_outputs},
    {"every instruction set = scalar", check_instruction_sets},
    {"1, 2, 3, 8 parts", check_parts},
    {"every chunking of a prompt", check_chunks},
    {"other sequences come and go", check_neighbours},
    {"pooled keys = rebuilt from raw keys", check_pooled_keys},
    {"rewind, inside groups too", check_rewind},
    {"evict, fork, copy, shift, window, compact", check_verbs},
    {"snapshots: restored = uninterrupted", check_snapshots},
    {"NaN, infinite and huge inputs are refused", check_bad_numbers},
    {"holes and stored positions are refused", check_bad_positions},
};
static const size_t CHECK_COUNT = sizeof checks / sizeof checks[0];

static void run_check(const struct check *check, bool quick, report *total)
{
    report r = {0};
    const double begin = clock_seconds();
    check->run(&r, quick);
    printf("%-48s %12" PRIu64 "  %s %6.1f s\n", check->name, r.compared, r.differences ? "DIFFERS" : "ok     ",
           clock_seconds() - begin);
    if (r.differences)
        printf("    %" PRIu64 " differences; the first: %s\n", r.differences, r.first);
    fflush(stdout);
    report_add(total, &r);
}

/* The instruction set that caches use; NULL if the device cannot create a cache. */
static const char *isa_in_use(void)
{
    qsa_config config;
    qsa_config_init(&config);
    config.capacity_tokens = QSA_PAGE_TOKENS;
    config.max_step_tokens = 1;
    config.device = device_in_use();
    qsa_cache *cache;
    if (qsa_cache_create(&config, &cache) != QSA_OK)
        return NULL;
    const char *isa = qsa_cache_isa(cache);
    qsa_cache_destroy(cache);
    return isa;
}

bool verify_suite(bool quick)
{
    const char *isa = isa_in_use();
    if (!isa) {
        options_say("verify", "%s", qsa_error_detail());
        return false;
    }
    report total = {0};
    char device[192];
    const double begin = clock_seconds();
    printf("%-48s %12s  %s\n", "check", "compared", "status");
    for (size_t i = 0; i < CHECK_COUNT; i++)
        run_check(&checks[i], quick, &total);
    printf("%zu checks, %" PRIu64 " values compared, %" PRIu64 " differences; %s, kernels %s, %.1f s\n", CHECK_COUNT,
           total.compared, total.differences, device_words(device), isa, clock_seconds() - begin);
    return total.differences == 0;
}
