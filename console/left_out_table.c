/* SPDX-License-Identifier: Apache-2.0 */
/* What of a file is left out, on the screen and in JSON. */
#include "console/left_out_table.h"

#include "console/engine_options.h"
#include "console/json_line.h"

#include <stdbool.h>
#include <string.h>

enum { SHOWN_NAMES = 2, NAME_BYTES = 160 };

/* A name from a hostile file must not steer the terminal: what is not ASCII text becomes '?'. */
static const char *clean(const char *name, char out[NAME_BYTES])
{
    size_t n = 0;
    for (; name[n] != '\0' && n < NAME_BYTES - 1; n++)
        out[n] = name[n] >= 0x20 && name[n] < 0x7f ? name[n] : '?';
    out[n] = '\0';
    return out;
}

/* ---- the screen ---- */

static bool is_same(const qsa_left_out *a, const qsa_left_out *b)
{
    return a->is_tensor == b->is_tensor && strcmp(a->reason, b->reason) == 0;
}

static bool is_first(const qsa_left_out *items, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (is_same(&items[k], &items[i]))
            return false;
    return true;
}

/* Items [first, n) with the reason of the first. */
static void print_group(FILE *out, const qsa_left_out *items, size_t first, size_t n)
{
    char name[NAME_BYTES], bytes[32];
    size_t count = 0;
    uint64_t size = 0;
    for (size_t i = first; i < n; i++) {
        if (is_same(&items[i], &items[first])) {
            count++;
            size += items[i].bytes;
        }
    }
    fprintf(out, "  %zu %s%s", count, items[first].is_tensor ? "tensor" : "key", count == 1 ? "" : "s");
    if (items[first].is_tensor)
        fprintf(out, " (%s)", engine_bytes(size, bytes));
    size_t shown = 0;
    for (size_t i = first; i < n && shown < SHOWN_NAMES; i++)
        if (is_same(&items[i], &items[first]))
            fprintf(out, "%s%s", shown++ == 0 ? ": " : ", ", clean(items[i].name, name));
    fprintf(out, "%s\n      %s\n", count > shown ? ", ..." : "", items[first].reason);
}

void left_out_print(FILE *out, const qsa_model *model)
{
    size_t n;
    const qsa_left_out *items = qsa_model_left_out(model, &n);
    if (n > 0)
        fputs("left out   of the file:\n", out);
    for (size_t i = 0; i < n; i++)
        if (is_first(items, i))
            print_group(out, items, i, n);
}

/* ---- JSON ---- */

json_t *left_out_json(const qsa_model *model)
{
    size_t n;
    const qsa_left_out *items = qsa_model_left_out(model, &n);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *item = json_object();
        json_line_set_text(item, items[i].is_tensor ? "tensor" : "key", items[i].name);
        json_line_set_text(item, "reason", items[i].reason);
        if (items[i].is_tensor)
            json_line_set(item, "bytes", json_integer((json_int_t)items[i].bytes));
        json_array_append_new(list, item);
    }
    return list;
}
