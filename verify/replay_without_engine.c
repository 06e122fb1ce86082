/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds that need the engine, in a program built without it: skipped, visibly. */
#include "verify/replay.h"

static void skip(report *r)
{
    report_skip(r, "this qsa was built without the engine (QSA_ENGINE=OFF)");
}

void replay_model(const golden_folder *folder, const char *file, const golden_file *golden, report *r)
{
    (void)folder, (void)file, (void)golden;
    skip(r);
}

void replay_tokenizer(const golden_folder *folder, const char *file, const golden_file *golden, report *r)
{
    (void)folder, (void)file, (void)golden;
    skip(r);
}
