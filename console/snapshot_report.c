/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot file on the screen and in JSON. */
#include "console/snapshot_report.h"

#include "console/json_line.h"

#include <inttypes.h>
#include <stdio.h>

enum { SHOWN_SEQUENCES = 12, TAG_CHARS = 12 };

/* ---- words ---- */

static const char *kv_name(qsa_kv_type type)
{
    static const char *const names[QSA_KV_TYPE_COUNT] = {"f32", "bf16", "f16", "q8_0"};
    return names[type]; /* the reader refuses any other */
}

static const char *profile_name(qsa_profile profile)
{
    return profile == QSA_PROFILE_F32 ? "f32" : "bf16";
}

/* A host's tag: its four characters, or a number. */
static const char *tag_name(uint32_t tag, char out[TAG_CHARS])
{
    bool is_text = true;
    for (int i = 0; i < 4; i++) {
        out[i] = (char)(tag >> 8 * i & 255);
        is_text = is_text && out[i] > 0x20 && out[i] < 0x7f;
    }
    out[4] = '\0';
    if (!is_text)
        snprintf(out, TAG_CHARS, "0x%08" PRIx32, tag);
    return out;
}

static void print_bytes(uint64_t bytes)
{
    if (bytes < 1 << 20)
        printf("%" PRIu64 " bytes", bytes);
    else
        printf("%.1f MiB", (double)bytes / (1 << 20));
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static uint64_t all_tokens(const qsa_snapshot *s)
{
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < s->n_sequences; i++)
        tokens += s->infos[i].tokens;
    return tokens;
}

/* ---- the screen ---- */

static void print_shape(const qsa_config *c)
{
    printf("shape      %" PRIu32 " QSA layer%s, %" PRIu32 " query heads over %" PRIu32 " kv heads x %" PRIu32 "\n",
           c->layers, plural(c->layers), c->q_heads, c->kv_heads, c->head_dim);
    printf("indexer    %" PRIu32 " heads x %" PRIu32 ", ratio %" PRIu32 ", budget %" PRIu32 " tokens\n", c->index_heads,
           c->index_dim, c->ratio, c->budget);
    printf("storage    K and V %s, index %s\n", kv_name(c->kv_type), profile_name(c->profile));
}

static void print_sequences(const qsa_snapshot *s)
{
    for (uint32_t i = 0; i < s->n_sequences && i < SHOWN_SEQUENCES; i++) {
        const qsa_seq_info *info = &s->infos[i];
        printf("sequence   %" PRIu64 " token%s at [%" PRId64 ", %" PRId64 "), %" PRIu64 " group%s", info->tokens,
               plural(info->tokens), info->anchor, info->frontier, info->groups, plural(info->groups));
        if (info->rotary_frame != 0)
            printf(", rotary frame %" PRId64, info->rotary_frame);
        if (info->window != 0)
            printf(", window %" PRIu64, info->window);
        putchar('\n');
    }
    if (s->n_sequences > SHOWN_SEQUENCES)
        printf("           and %" PRIu32 " more sequences\n", s->n_sequences - SHOWN_SEQUENCES);
    printf("rows       %" PRIu64 " of %" PRIu64 " tokens; what sequences share is stored once\n", s->tokens,
           all_tokens(s));
}

static void print_sections(const qsa_snapshot *s)
{
    char tag[TAG_CHARS];
    for (uint32_t i = 0; i < s->n_sections; i++) {
        printf("host       %s, ", tag_name(s->sections[i].tag, tag));
        print_bytes(s->sections[i].size_bytes);
        putchar('\n');
    }
}

void snapshot_report_print(const char *path, const qsa_snapshot *s)
{
    printf("file       %s, ", path);
    print_bytes(s->size_bytes);
    printf(", format version %" PRIu32 "\nmodel      digest %016" PRIx64 "\n", s->version, s->model_digest);
    print_shape(&s->config);
    print_sequences(s);
    print_sections(s);
}

/* ---- JSON ---- */

static json_t *json_of_shape(const qsa_config *c)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s}", "layers", (json_int_t)c->layers,
                     "q_heads", (json_int_t)c->q_heads, "kv_heads", (json_int_t)c->kv_heads, "head_dim",
                     (json_int_t)c->head_dim, "index_heads", (json_int_t)c->index_heads, "index_dim",
                     (json_int_t)c->index_dim, "budget", (json_int_t)c->budget, "ratio", (json_int_t)c->ratio,
                     "rotary_dim", (json_int_t)c->rotary_dim, "kv_type", kv_name(c->kv_type), "profile",
                     profile_name(c->profile));
}

static json_t *json_of_sequences(const qsa_snapshot *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->n_sequences; i++) {
        const qsa_seq_info *info = &s->infos[i];
        json_array_append_new(list,
                              json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "anchor", (json_int_t)info->anchor,
                                        "frontier", (json_int_t)info->frontier, "tokens", (json_int_t)info->tokens,
                                        "groups", (json_int_t)info->groups, "rotary_frame",
                                        (json_int_t)info->rotary_frame, "window", (json_int_t)info->window));
    }
    return list;
}

static json_t *json_of_sections(const qsa_snapshot *s)
{
    char tag[TAG_CHARS];
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->n_sections; i++)
        json_array_append_new(list, json_pack("{s:s, s:I}", "tag", tag_name(s->sections[i].tag, tag), "bytes",
                                              (json_int_t)s->sections[i].size_bytes));
    return list;
}

void snapshot_report_json(const char *path, const qsa_snapshot *s)
{
    char digest[17];
    snprintf(digest, sizeof digest, "%016" PRIx64, s->model_digest);
    json_t *all = json_object();
    json_line_set_text(all, "path", path);
    json_line_set(all, "bytes", json_integer((json_int_t)s->size_bytes));
    json_line_set(all, "version", json_integer((json_int_t)s->version));
    json_line_set_text(all, "model_digest", digest);
    json_line_set(all, "rows", json_integer((json_int_t)s->tokens));
    json_line_set(all, "shape", json_of_shape(&s->config));
    json_line_set(all, "sequences", json_of_sequences(s));
    json_line_set(all, "host", json_of_sections(s));
    json_line_print(all);
}

/* ---- the verdict ---- */

void snapshot_report_verdict(const char *path, const qsa_snapshot *s)
{
    printf("%s: good; %" PRIu32 " sequence%s, %" PRIu64 " token%s, %" PRIu32 " section%s of the host, ", path,
           s->n_sequences, plural(s->n_sequences), all_tokens(s), plural(all_tokens(s)), s->n_sections,
           plural(s->n_sections));
    print_bytes(s->size_bytes);
    putchar('\n');
}
