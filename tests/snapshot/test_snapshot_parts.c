/* Snapshots whose checksums are right and whose content is not: each part is judged, and named when it is refused. */
#include "mini.h"
#include "parts.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 8, MODEL = 42 };

static mini_bytes saved(const qsa_cache *cache, const qsa_seq *sequences, size_t n)
{
    static const qsa_section sections[2] = {{7, "seven", 5}, {9, "nine", 4}};
    mini_bytes bytes = {0};
    qsa_writer writer = mini_writer(&bytes);
    mini_ok(qsa_snapshot_write(cache, sequences, n, sections, 2, MODEL, &writer));
    return bytes;
}

/* A snapshot of one sequence of 8 tokens, and a live cache beside which it is read. */
typedef struct desk {
    mini_bytes bytes;
    qsa_cache *cache;
    qsa_seq seq;
    uint64_t state;
} desk;

static desk lay_out_of(const qsa_config *config, uint32_t tokens)
{
    desk d = {.cache = mini_create(config)};
    mini_ok(qsa_seq_open(d.cache, &d.seq));
    mini_feed(d.cache, d.seq, 0, tokens, 1, NULL);
    d.bytes = saved(d.cache, &d.seq, 1);
    d.state = mini_state(d.cache, &d.seq, 1);
    return d;
}

static desk lay_out(uint32_t tokens)
{
    const qsa_config config = mini_config();
    return lay_out_of(&config, tokens);
}

static void clear(desk *d)
{
    mini_free(&d->bytes);
    qsa_cache_destroy(d->cache);
}

/* Seals and reads: refused with this status, the detail holds `words`, nothing has changed. Inspecting refuses too. */
static void refused(desk *d, qsa_status expected, const char *words)
{
    parts_seal(d->bytes.data, d->bytes.size);
    qsa_snapshot snapshot = {.n_sections = 77};
    qsa_reader reader = mini_reader(&d->bytes);
    qsa_status status = qsa_snapshot_read(d->cache, MODEL, &reader, &snapshot);
    if (status != expected || strstr(qsa_error_detail(), words) == NULL)
        fail_msg("expected %s with \"%s\", found %s: %s", qsa_status_name(expected), words, qsa_status_name(status),
                 qsa_error_detail());
    assert_int_equal(snapshot.n_sections, 77);
    assert_true(mini_state(d->cache, &d->seq, 1) == d->state);
}

static void put_u32(desk *d, size_t at, uint32_t value)
{
    memcpy(d->bytes.data + at, &value, sizeof value);
}

static void put_u64(desk *d, size_t at, uint64_t value)
{
    memcpy(d->bytes.data + at, &value, sizeof value);
}

/* Gives a part another number of rows, cut or filled with zeros. */
static void resize_part(desk *d, const char *tag, uint32_t number, uint64_t rows)
{
    part p = parts_get(d->bytes.data, d->bytes.size, tag, number);
    assert_true(p.size > 0 && p.rows > 0);
    size_t size = p.size / (size_t)p.rows * (size_t)rows, kept = size < p.size ? size : p.size;
    size_t rest = d->bytes.size - p.data_at - p.size;
    uint8_t *data = test_alloc(p.data_at + size + rest, 1);
    memcpy(data, d->bytes.data, p.data_at + kept);
    memcpy(data + p.data_at + size, d->bytes.data + p.data_at + p.size, rest);
    free(d->bytes.data);
    d->bytes.data = data;
    d->bytes.size = d->bytes.capacity = p.data_at + size + rest;
    put_u64(d, p.head_at + 8, rows);
    put_u64(d, p.head_at + 16, size);
}

static void drop_part(desk *d, const char *tag, uint32_t number)
{
    part p = parts_get(d->bytes.data, d->bytes.size, tag, number);
    assert_true(p.data_at > 0);
    size_t end = p.data_at + p.size + PARTS_HASH_BYTES;
    memmove(d->bytes.data + p.head_at, d->bytes.data + end, d->bytes.size - end);
    d->bytes.size -= end - p.head_at;
}

static void a_sealed_snapshot_without_changes_is_read(void **state)
{
    (void)state;
    desk d = lay_out(TOKENS);
    uint8_t *copy = test_alloc(d.bytes.size, 1);
    memcpy(copy, d.bytes.data, d.bytes.size);
    parts_seal(d.bytes.data, d.bytes.size);
    assert_memory_equal(copy, d.bytes.data, d.bytes.size);
    free(copy);
    clear(&d);
}

/* A part with another number of rows than the others is refused, however short the file is. */
static void parts_of_different_length_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *tag, *name;
        uint64_t rows[5];
    } parts[] = {{"K   ", "K of layer 1", {0, 4, 7, 9, 40}},
                 {"V   ", "V of layer 1", {0, 4, 7, 9, 40}},
                 {"RAW ", "raw index keys of layer 1", {0, 4, 7, 9, 40}},
                 {"POOL", "pooled index keys of layer 1", {0, 1, 3, 4, 40}}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (int r = 0; r < 5; r++) {
            desk d = lay_out(TOKENS);
            resize_part(&d, parts[i].tag, 1, parts[i].rows[r]);
            refused(&d, QSA_E_FORMAT, parts[i].name);
            clear(&d);
        }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) { /* the rows are right, the bytes are not */
        desk d = lay_out(TOKENS);
        part p = parts_get(d.bytes.data, d.bytes.size, parts[i].tag, 1);
        put_u64(&d, p.head_at + 16, p.size - 1);
        refused(&d, QSA_E_FORMAT, "bytes, expected");
        clear(&d);
    }
    for (uint64_t rows = 0; rows < 20; rows += rows == 7 ? 2 : 1) {
        desk d = lay_out(TOKENS);
        resize_part(&d, "TRIP", 0, rows);
        refused(&d, QSA_E_FORMAT, "rotary triples");
        clear(&d);
    }
}

/* A snapshot that lacks the index of any layer is refused: at 40 tokens, and at 8, where a wrong index changes no
 * output. */
static void a_missing_part_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *tag, *words;
    } parts[] = {{"CONF", "expected configuration"},
                 {"SEQS", "expected sequences"},
                 {"TABL", "expected page tables"},
                 {"EXTS", "expected extents"},
                 {"TRIP", "expected rotary"},
                 {"K   ", "expected K of layer"},
                 {"V   ", "expected V of layer"},
                 {"RAW ", "expected raw index"},
                 {"POOL", "expected pooled index"},
                 {"HOST", "host section"},
                 {"END ", ""}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (uint32_t tokens = TOKENS; tokens <= 40; tokens += 32)
            for (uint32_t number = 0; number < 10; number++) {
                desk d = lay_out(tokens);
                if (parts_get(d.bytes.data, d.bytes.size, parts[i].tag, number).data_at > 0) {
                    drop_part(&d, parts[i].tag, number);
                    refused(&d, QSA_E_FORMAT, parts[i].words);
                }
                clear(&d);
            }
}

/* Wrong rows and bytes in the head of every section, under correct checksums. */
static void hostile_lengths_are_refused(void **state)
{
    (void)state;
    static const uint64_t hostile[] = {
        0, 1, 7, INT32_MAX, UINT32_MAX, UINT64_C(1) << 32, INT64_MAX, UINT64_MAX, UINT64_C(1) << 63, UINT64_MAX / 12};
    desk d = lay_out(TOKENS);
    part all[PARTS_MAX];
    size_t n = parts_find(d.bytes.data, d.bytes.size, all);
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < sizeof hostile / sizeof *hostile; h++)
            for (int field = 0; field < 3; field++) { /* rows, bytes, both */
                desk own = lay_out(TOKENS);
                if (field != 1)
                    put_u64(&own, all[i].head_at + 8, hostile[h]);
                if (field != 0)
                    put_u64(&own, all[i].head_at + 16, hostile[h]);
                if (memcmp(own.bytes.data, d.bytes.data, d.bytes.size) != 0)
                    refused(&own, QSA_E_FORMAT, "");
                clear(&own);
            }
    clear(&d);
}

/* ---- sequences, tables and extents that could be no cache's ---- */

enum { SEQUENCE_BYTES = 48 };

static void sequences_that_are_no_run_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at, bytes;
        uint64_t value;
        const char *words;
    } changes[] = {
        {0, 8, (uint64_t)-4, "not a run"},
        {0, 8, 9, "not a run"},
        {0, 8, UINT64_C(1) << 62, "not a run"},
        {8, 8, (uint64_t)-1, "not a run"},
        {8, 8, (UINT64_C(1) << 31) + 1, "not a run"},
        {8, 8, INT64_MAX, "not a run"},
        {8, 8, 65, "number of pages"},
        {16, 8, UINT64_C(1) << 31, "frame"},
        {16, 8, (uint64_t)INT64_MIN, "frame"},
        {24, 8, 3, "window"},
        {32, 4, 2, "first slot"},
        {32, 4, 64, "first slot"},
        {32, 4, UINT32_MAX - 3, "first slot"},
        {32, 4, 60, "number of pages"},
        {36, 4, 0, "number of pages"},
        {36, 4, UINT32_MAX, "number of pages"},
        {40, 4, 2, "flags"},
        {40, 4, 0, "flags"},
        {44, 4, 1, "flags"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        desk d = lay_out(TOKENS);
        part p = parts_get(d.bytes.data, d.bytes.size, "SEQS", 0);
        memcpy(d.bytes.data + p.data_at + changes[i].at, &changes[i].value, changes[i].bytes);
        if (changes[i].at == 40 && changes[i].value == 0)
            put_u64(&d, p.data_at + 8, 8); /* tokens, but no anchor that was decided */
        refused(&d, QSA_E_FORMAT, changes[i].words);
        clear(&d);
    }
}

/* A table that names one extent again and again would be longer than the pages that are taken. */
static void a_page_named_twice_in_one_sequence_is_refused(void **state)
{
    (void)state;
    for (uint32_t pages = 2; pages <= 6000; pages += 2999) { /* the cache has 40 */
        desk d = lay_out(64);
        part p = parts_get(d.bytes.data, d.bytes.size, "SEQS", 0);
        put_u64(&d, p.data_at + 8, (uint64_t)pages * 64);
        put_u32(&d, p.data_at + 36, pages);
        resize_part(&d, "TABL", 0, pages); /* zeros: the first extent */
        refused(&d, QSA_E_FORMAT, "again in one sequence");
        clear(&d);
    }
}

static void tables_and_extents_that_are_not_canonical_are_refused(void **state)
{
    (void)state;
    desk d = lay_out(200); /* 4 pages */
    part p = parts_get(d.bytes.data, d.bytes.size, "TABL", 0);
    put_u32(&d, p.data_at, 1);
    put_u32(&d, p.data_at + 4, 0);
    refused(&d, QSA_E_FORMAT, "entry 0 is extent 1, expected at most 0");
    put_u32(&d, p.data_at, 0);
    put_u32(&d, p.data_at + 4, UINT32_MAX);
    refused(&d, QSA_E_FORMAT, "page tables");
    put_u32(&d, p.data_at + 4, 1);
    p = parts_get(d.bytes.data, d.bytes.size, "EXTS", 0);
    put_u32(&d, p.data_at, 4); /* begins later than its sequence does */
    refused(&d, QSA_E_FORMAT, "extents");
    put_u32(&d, p.data_at, 0);
    put_u32(&d, p.data_at + 28, 64); /* ends later */
    refused(&d, QSA_E_FORMAT, "extents");
    put_u32(&d, p.data_at + 28, UINT32_MAX);
    refused(&d, QSA_E_FORMAT, "extents");
    put_u32(&d, p.data_at + 28, 8);
    resize_part(&d, "EXTS", 0, 5); /* more than the table has entries */
    refused(&d, QSA_E_FORMAT, "extents: impossible number");
    clear(&d);
    d = lay_out(200);
    qsa_seq both[2] = {d.seq};
    mini_ok(qsa_seq_fork(d.cache, d.seq, 200, &both[1])); /* eight entries, four extents */
    mini_free(&d.bytes);
    d.bytes = saved(d.cache, both, 2);
    resize_part(&d, "EXTS", 0, 5);
    refused(&d, QSA_E_FORMAT, "extents: 5, the page tables name 4");
    clear(&d);
    d = lay_out(200);
    resize_part(&d, "TABL", 0, 5); /* one entry more than the sequence has pages */
    refused(&d, QSA_E_FORMAT, "page tables: 5 entries, the sequences need 4");
    clear(&d);
    d = lay_out(200);
    resize_part(&d, "EXTS", 0, 3);
    refused(&d, QSA_E_FORMAT, "page tables");
    resize_part(&d, "TABL", 0, 3);
    refused(&d, QSA_E_FORMAT, "page tables");
    clear(&d);
}

/* ---- values ---- */

/* Scales are f16: the largest finite one, and what follows, in every chunk of both signs. */
static void scales_of_q8_0_are_finite(void **state)
{
    (void)state;
    static const uint16_t bad[] = {0x7c00, 0xfc00, 0x7e00, 0xffff};
    const uint16_t largest = 0x7bff;
    qsa_config config = mini_config();
    config.kv_type = QSA_KV_Q8_0;
    config.head_dim = 64;
    desk d = lay_out_of(&config, TOKENS);
    for (int tensor = 0; tensor < 2; tensor++) {
        const part p = parts_get(d.bytes.data, d.bytes.size, tensor ? "K   " : "V   ", 2);
        for (size_t at = 0; at < p.size; at += 34) {
            uint16_t kept;
            memcpy(&kept, d.bytes.data + p.data_at + at, 2);
            memcpy(d.bytes.data + p.data_at + at, &bad[at / 34 % 4], 2);
            refused(&d, QSA_E_FORMAT, "not finite");
            memcpy(d.bytes.data + p.data_at + at, &kept, 2);
        }
        memcpy(d.bytes.data + p.data_at, &largest, 2);
    }
    parts_seal(d.bytes.data, d.bytes.size);
    qsa_snapshot snapshot;
    qsa_reader reader = mini_reader(&d.bytes);
    mini_ok(qsa_snapshot_read(d.cache, MODEL, &reader, &snapshot));
    qsa_snapshot_free(&snapshot);
    clear(&d);
}

/* Every coordinate of every token, just within the limit and just beyond. */
static void triples_are_within_2_to_the_24(void **state)
{
    (void)state;
    desk d = lay_out(70); /* two pages */
    const part p = parts_get(d.bytes.data, d.bytes.size, "TRIP", 0);
    for (size_t at = 0; at < p.size; at += 4)
        for (int sign = -1; sign <= 1; sign += 2) {
            int32_t saved;
            memcpy(&saved, d.bytes.data + p.data_at + at, 4);
            put_u32(&d, p.data_at + at, (uint32_t)(sign * ((1 << 24) + 1)));
            refused(&d, QSA_E_FORMAT, "rotary triples: a coordinate is beyond 2^24");
            put_u32(&d, p.data_at + at, (uint32_t)(sign * (1 << 24)));
            parts_seal(d.bytes.data, d.bytes.size);
            qsa_snapshot snapshot;
            qsa_reader reader = mini_reader(&d.bytes);
            mini_ok(qsa_snapshot_read(d.cache, MODEL, &reader, &snapshot));
            mini_ok(qsa_seq_close(d.cache, snapshot.sequences[0]));
            qsa_snapshot_free(&snapshot);
            put_u32(&d, p.data_at + at, (uint32_t)saved);
        }
    clear(&d);
}

/* Stored numbers by type: the largest that a step can have stored, and the next. */
static void each_type_has_its_largest_value(void **state)
{
    (void)state;
    static const struct {
        qsa_kv_type type;
        size_t bytes;
        uint32_t largest;
    } types[] = {{QSA_KV_F32, 4, 0x5c000000}, {QSA_KV_BF16, 2, 0x5c00}, {QSA_KV_F16, 2, 0x7bff}};
    for (size_t i = 0; i < 2 * sizeof types / sizeof *types; i++) {
        qsa_config config = mini_config();
        config.kv_type = types[i / 2].type;
        desk d = lay_out_of(&config, TOKENS);
        const part p = parts_get(d.bytes.data, d.bytes.size, i % 2 ? "K   " : "V   ", 1);
        for (size_t at = 0; at < p.size; at += types[i / 2].bytes) {
            uint32_t bits = types[i / 2].largest + 1, saved;
            memcpy(&saved, d.bytes.data + p.data_at + at, types[i / 2].bytes);
            memcpy(d.bytes.data + p.data_at + at, &bits, types[i / 2].bytes);
            refused(&d, QSA_E_FORMAT, "not finite or beyond 2^57");
            memcpy(d.bytes.data + p.data_at + at, &saved, types[i / 2].bytes);
        }
        memcpy(d.bytes.data + p.data_at, &types[i / 2].largest, types[i / 2].bytes);
        parts_seal(d.bytes.data, d.bytes.size);
        qsa_snapshot snapshot;
        qsa_reader reader = mini_reader(&d.bytes);
        mini_ok(qsa_snapshot_read(d.cache, MODEL, &reader, &snapshot));
        qsa_snapshot_free(&snapshot);
        clear(&d);
    }
}

/* A reader that does not trust the writer finds a pooled key that differs in any one element. */
static void a_pooled_key_that_differs_anywhere_is_found(void **state)
{
    (void)state;
    desk d = lay_out(TOKENS);
    for (uint32_t layer = 0; layer < 3; layer++) {
        const part p = parts_get(d.bytes.data, d.bytes.size, "POOL", layer);
        for (size_t at = 0; at < p.size; at += 2) {
            char words[64];
            snprintf(words, sizeof words, "layer %u, group %zu: pooled key differs", layer, at / (p.size / 2));
            d.bytes.data[p.data_at + at] ^= 1; /* the last bit of a bf16 */
            parts_seal(d.bytes.data, d.bytes.size);
            qsa_snapshot snapshot;
            qsa_reader reader = mini_reader(&d.bytes);
            mini_ok(qsa_snapshot_read(d.cache, MODEL, &reader, &snapshot));
            assert_int_equal(qsa_seq_verify_index(d.cache, snapshot.sequences[0]), QSA_E_FORMAT);
            assert_non_null(strstr(qsa_error_detail(), words));
            mini_ok(qsa_seq_close(d.cache, snapshot.sequences[0]));
            qsa_snapshot_free(&snapshot);
            d.bytes.data[p.data_at + at] ^= 1;
        }
    }
    clear(&d);
}

/* A section of another snapshot is whole and right for its place; only the checksum of the whole tells. */
static void a_section_of_another_snapshot_is_refused(void **state)
{
    (void)state;
    desk d = lay_out(TOKENS), other = lay_out(TOKENS);
    mini_free(&other.bytes);
    mini_ok(qsa_seq_rewind(other.cache, other.seq, 0));
    mini_feed(other.cache, other.seq, 0, TOKENS, 9, NULL);
    other.bytes = saved(other.cache, &other.seq, 1);
    assert_int_equal(d.bytes.size, other.bytes.size);
    part all[PARTS_MAX];
    const size_t n = parts_find(d.bytes.data, d.bytes.size, all);
    int differ = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t size = all[i].data_at + all[i].size + PARTS_HASH_BYTES - all[i].head_at;
        uint8_t *here = d.bytes.data + all[i].head_at, *kept = test_alloc(size, 1);
        memcpy(kept, here, size);
        memcpy(here, other.bytes.data + all[i].head_at, size);
        if (memcmp(kept, here, size) != 0) {
            qsa_snapshot snapshot;
            qsa_reader reader = mini_reader(&d.bytes);
            assert_int_equal(qsa_snapshot_read(d.cache, MODEL, &reader, &snapshot), QSA_E_FORMAT);
            assert_non_null(strstr(qsa_error_detail(), "checksum of the whole does not match"));
            differ++;
        }
        memcpy(here, kept, size);
        free(kept);
    }
    assert_true(differ > 12); /* tensors of three layers, and the end */
    clear(&d);
    clear(&other);
}

static void values_that_no_step_could_have_stored_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *tag, *words;
        uint16_t bits; /* bf16 */
    } changes[] = {
        {"K   ", "K of layer 2", 0x7fc0},
        {"K   ", "K of layer 2", 0x7f80},
        {"V   ", "V of layer 2", 0xff80},
        {"V   ", "V of layer 2", 0x5c01},
        {"RAW ", "raw index keys of layer 2", 0x7f81},
        {"POOL", "pooled index keys of layer 2", 0xffff},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        desk d = lay_out(TOKENS);
        part p = parts_get(d.bytes.data, d.bytes.size, changes[i].tag, 2);
        memcpy(d.bytes.data + p.data_at + p.size - 2, &changes[i].bits, 2);
        refused(&d, QSA_E_FORMAT, changes[i].words);
        clear(&d);
    }
    desk d = lay_out(TOKENS);
    put_u32(&d, parts_get(d.bytes.data, d.bytes.size, "TRIP", 0).data_at + 8, (1u << 24) + 1);
    refused(&d, QSA_E_FORMAT, "beyond 2^24");
    clear(&d);
}

/* ---- head, configuration, host sections ---- */

/* At the offsets of docs/SNAPSHOT.md, section 2; and what is read is the same again, without sizes. */
static void the_configuration_is_stored_field_by_field(void **state)
{
    (void)state;
    qsa_config c = mini_config();
    c.yarn = (qsa_yarn){4, 4096, 31, 2, 1.5f};
    c.theta = 5000;
    c.eps = 1e-5f;
    c.kv_type = QSA_KV_F16;
    c.profile = QSA_PROFILE_F32;
    desk d = lay_out_of(&c, TOKENS);
    const part p = parts_get(d.bytes.data, d.bytes.size, "CONF", 0);
    const uint32_t numbers[] = {c.layers, c.q_heads, c.kv_heads,   c.head_dim,    c.index_heads, c.index_dim,
                                c.ratio,  c.budget,  c.rotary_dim, c.sections[0], c.sections[1], c.sections[2]};
    const float floats[] = {c.theta,
                            c.eps,
                            c.yarn.factor,
                            c.yarn.original_context,
                            c.yarn.beta_fast,
                            c.yarn.beta_slow,
                            c.yarn.attention_factor};
    const uint32_t last[] = {2, 0, 2}; /* f16, f32, two host sections */
    assert_memory_equal(d.bytes.data + p.data_at + 16, numbers, sizeof numbers);
    assert_memory_equal(d.bytes.data + p.data_at + 64, floats, sizeof floats);
    assert_memory_equal(d.bytes.data + p.data_at + 92, last, sizeof last);
    qsa_snapshot s;
    qsa_reader reader = mini_reader(&d.bytes);
    mini_ok(qsa_snapshot_read(d.cache, MODEL, &reader, &s));
    assert_memory_equal(&s.config.yarn, &c.yarn, sizeof c.yarn);
    assert_true(s.config.theta == c.theta && s.config.eps == c.eps && s.config.kv_type == c.kv_type &&
                s.config.profile == c.profile && s.config.ratio == c.ratio && s.config.budget == c.budget);
    assert_true(s.config.capacity_tokens == 0 && s.config.max_sequences == 0 && s.config.max_step_tokens == 0 &&
                s.config.max_parts == 0);
    assert_int_equal(s.size_bytes, d.bytes.size);
    qsa_snapshot_free(&s);
    clear(&d);
}

static void an_empty_run_has_no_first_slot(void **state)
{
    (void)state;
    desk d = lay_out(TOKENS);
    mini_free(&d.bytes);
    mini_ok(qsa_seq_rewind(d.cache, d.seq, 0));
    d.bytes = saved(d.cache, &d.seq, 1);
    d.state = mini_state(d.cache, &d.seq, 1);
    put_u32(&d, parts_get(d.bytes.data, d.bytes.size, "SEQS", 0).data_at + 32, 4);
    refused(&d, QSA_E_FORMAT, "first slot");
    clear(&d);
}

static void a_section_of_another_layer_is_refused(void **state)
{
    (void)state;
    static const char *const tags[] = {"K   ", "V   ", "RAW ", "POOL"};
    for (int i = 0; i < 4; i++) {
        desk d = lay_out(TOKENS);
        put_u32(&d, parts_get(d.bytes.data, d.bytes.size, tags[i], 1).head_at + 4, 2);
        refused(&d, QSA_E_FORMAT, "of layer 1, found");
        clear(&d);
    }
}

static void another_version_is_refused_with_both_values(void **state)
{
    (void)state;
    desk d = lay_out(TOKENS);
    put_u32(&d, 8, 2);
    refused(&d, QSA_E_UNSUPPORTED, "version 2 in the file, 1 here");
    put_u32(&d, 8, 1);
    put_u32(&d, 12, 1);
    refused(&d, QSA_E_FORMAT, "reserved is 1, not 0");
    put_u32(&d, 12, 0);
    d.bytes.data[7] = '\r'; /* what a text-mode copy would do */
    refused(&d, QSA_E_FORMAT, "not a qsa snapshot");
    clear(&d);
}

/* The fields of 4 bytes behind the two digests, all but the number of host sections, one by one. Those that `unused`
 * counts, from original_context on, mean nothing: whatever they say, the same sequence is restored. */
static void change_each_field(const qsa_config *config, size_t unused)
{
    enum { FIELDS = 22, YARN_CONTEXT = 15 };
    for (size_t field = 0; field < FIELDS; field++) {
        desk d = lay_out_of(config, TOKENS);
        const bool is_used = field < YARN_CONTEXT || field >= YARN_CONTEXT + unused;
        part p = parts_get(d.bytes.data, d.bytes.size, "CONF", 0);
        uint32_t value;
        memcpy(&value, d.bytes.data + p.data_at + 16 + 4 * field, 4);
        for (int change = 0; change < 3; change++) {
            put_u32(&d, p.data_at + 16 + 4 * field, change == 0 ? value * 2 + 2 : change == 1 ? value + 1 : UINT32_MAX);
            parts_seal(d.bytes.data, d.bytes.size);
            qsa_snapshot snapshot;
            qsa_reader reader = mini_reader(&d.bytes);
            qsa_status status = qsa_snapshot_read(d.cache, MODEL, &reader, &snapshot);
            if (is_used)
                assert_true(status == QSA_E_UNSUPPORTED || status == QSA_E_FORMAT);
            else {
                mini_ok(status);
                assert_true(mini_digest(d.cache, snapshot.sequences[0]) == mini_digest(d.cache, d.seq));
                mini_ok(qsa_seq_close(d.cache, snapshot.sequences[0]));
                qsa_snapshot_free(&snapshot);
            }
            assert_true(mini_state(d.cache, &d.seq, 1) == d.state);
        }
        clear(&d);
    }
}

static void another_shape_is_refused_field_by_field(void **state)
{
    (void)state;
    qsa_config config = mini_config();
    change_each_field(&config, 4);
    config.yarn = (qsa_yarn){4, 4096, 32, 1, 1.5f};
    change_each_field(&config, 0);
}

/* Digests of the model and of the norms, bit by bit. */
static void another_model_is_refused_by_every_bit_of_its_digests(void **state)
{
    (void)state;
    desk d = lay_out(TOKENS);
    const part p = parts_get(d.bytes.data, d.bytes.size, "CONF", 0);
    for (int bit = 0; bit < 128; bit++) {
        d.bytes.data[p.data_at + bit / 8] ^= (uint8_t)(1u << bit % 8);
        qsa_snapshot snapshot;
        parts_seal(d.bytes.data, d.bytes.size);
        qsa_reader reader = mini_reader(&d.bytes);
        assert_int_equal(qsa_snapshot_read(d.cache, MODEL, &reader, &snapshot), QSA_E_UNSUPPORTED);
        assert_non_null(strstr(qsa_error_detail(), bit < 64 ? "another model: model digest" : "another model: norm"));
        d.bytes.data[p.data_at + bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    clear(&d);
}

static void host_sections_are_counted_and_differ(void **state)
{
    (void)state;
    desk d = lay_out(TOKENS);
    part conf = parts_get(d.bytes.data, d.bytes.size, "CONF", 0);
    const size_t count_at = conf.data_at + conf.size - 4;
    for (uint32_t n = 0; n < 4; n++) {
        put_u32(&d, count_at, n);
        if (n != 2)
            refused(&d, QSA_E_FORMAT, n < 2 ? "expected end" : "expected a host section");
    }
    put_u32(&d, count_at, QSA_SNAPSHOT_MAX_SECTIONS + 1);
    refused(&d, QSA_E_FORMAT, "host sections, at most");
    put_u32(&d, count_at, 2);
    put_u32(&d, parts_get(d.bytes.data, d.bytes.size, "HOST", 9).head_at + 4, 7);
    refused(&d, QSA_E_FORMAT, "repeated");
    clear(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sealed_snapshot_without_changes_is_read),
        cmocka_unit_test(parts_of_different_length_are_refused_by_name),
        cmocka_unit_test(a_missing_part_is_refused_by_name),
        cmocka_unit_test(hostile_lengths_are_refused),
        cmocka_unit_test(sequences_that_are_no_run_are_refused),
        cmocka_unit_test(a_page_named_twice_in_one_sequence_is_refused),
        cmocka_unit_test(tables_and_extents_that_are_not_canonical_are_refused),
        cmocka_unit_test(scales_of_q8_0_are_finite),
        cmocka_unit_test(the_configuration_is_stored_field_by_field),
        cmocka_unit_test(an_empty_run_has_no_first_slot),
        cmocka_unit_test(a_section_of_another_layer_is_refused),
        cmocka_unit_test(triples_are_within_2_to_the_24),
        cmocka_unit_test(each_type_has_its_largest_value),
        cmocka_unit_test(a_pooled_key_that_differs_anywhere_is_found),
        cmocka_unit_test(a_section_of_another_snapshot_is_refused),
        cmocka_unit_test(values_that_no_step_could_have_stored_are_refused),
        cmocka_unit_test(another_version_is_refused_with_both_values),
        cmocka_unit_test(another_shape_is_refused_field_by_field),
        cmocka_unit_test(another_model_is_refused_by_every_bit_of_its_digests),
        cmocka_unit_test(host_sections_are_counted_and_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
