/* Snapshots: the same state comes back, and nothing else gets in. */
#include "mini.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

static mini_bytes save(const qsa_cache *cache, const qsa_seq *sequences, size_t n)
{
    static const char text[] = "host state";
    const qsa_section sections[2] = {{7, text, sizeof text}, {9, NULL, 0}};
    mini_bytes bytes = {0};
    qsa_writer writer = mini_writer(&bytes);
    mini_ok(qsa_snapshot_write(cache, sequences, n, sections, 2, 42, &writer));
    return bytes;
}

static qsa_snapshot load(qsa_cache *cache, mini_bytes *bytes)
{
    qsa_snapshot snapshot;
    qsa_reader reader = mini_reader(bytes);
    mini_ok(qsa_snapshot_read(cache, 42, &reader, &snapshot));
    assert_int_equal(bytes->at, bytes->size);
    mini_ok(qsa_cache_check(cache));
    return snapshot;
}

static void saved_loaded_saved_gives_the_same_bytes(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {1, 3, 4, 11, 12, 13, 63, 64, 65, 300};
    for (size_t i = 0; i < 8 * sizeof lengths / sizeof *lengths; i++) {
        qsa_config config = mini_config();
        config.kv_heads = 1 + i % 2;
        config.kv_type = (qsa_kv_type)(i / 2 % QSA_KV_TYPE_COUNT);
        config.head_dim = config.kv_type == QSA_KV_Q8_0 ? 32 : 8;
        config.profile = i % 4 ? QSA_PROFILE_F32 : QSA_PROFILE_BF16;
        const uint32_t length = lengths[i / 8];
        qsa_cache *from = mini_create(&config), *to = mini_create(&config);
        qsa_seq seq;
        mini_ok(qsa_seq_open(from, &seq));
        mini_feed(from, seq, 5, length, 1, NULL);
        mini_bytes first = save(from, &seq, 1);
        qsa_snapshot snapshot = load(to, &first);
        assert_int_equal(snapshot.n_sequences, 1);
        assert_int_equal(snapshot.tokens, length); /* exactly the tokens, no padding */
        assert_int_equal(snapshot.n_sections, 2);
        assert_string_equal(snapshot.sections[0].data, "host state");
        assert_true(mini_digest(from, seq) == mini_digest(to, snapshot.sequences[0]));
        mini_bytes second = save(to, snapshot.sequences, 1);
        assert_int_equal(first.size, second.size);
        assert_memory_equal(first.data, second.data, first.size);
        float before[64], after[64];
        mini_feed(from, seq, 5 + length, 7, 1, before);
        mini_feed(to, snapshot.sequences[0], 5 + length, 7, 1, after);
        test_same_floats("output after restore", before, after, 2 * config.head_dim);
        mini_ok(qsa_seq_verify_index(to, snapshot.sequences[0]));
        qsa_snapshot_free(&snapshot);
        mini_free(&first);
        mini_free(&second);
        qsa_cache_destroy(from);
        qsa_cache_destroy(to);
    }
}

static void shared_pages_stay_shared(void **state)
{
    (void)state;
    const qsa_config config = mini_config();
    qsa_cache *from = mini_create(&config), *to = mini_create(&config);
    qsa_seq seqs[3];
    mini_ok(qsa_seq_open(from, &seqs[0]));
    mini_feed(from, seqs[0], 0, 300, 1, NULL);
    mini_ok(qsa_seq_fork(from, seqs[0], 201, &seqs[1]));
    mini_feed(from, seqs[1], 201, 50, 2, NULL);
    mini_ok(qsa_seq_fork(from, seqs[0], 130, &seqs[2]));
    mini_ok(qsa_seq_shift(from, seqs[2], 1000));
    mini_ok(qsa_seq_evict(from, seqs[2], 1064 + 8));
    mini_bytes bytes = save(from, seqs, 3);
    uint64_t taken = config.capacity_tokens - qsa_cache_free_tokens(from);
    qsa_snapshot snapshot = load(to, &bytes);
    assert_int_equal(config.capacity_tokens - qsa_cache_free_tokens(to), taken);
    for (int i = 0; i < 3; i++)
        assert_true(mini_digest(from, seqs[i]) == mini_digest(to, snapshot.sequences[i]));
    mini_bytes again = save(to, snapshot.sequences, 3);
    assert_int_equal(bytes.size, again.size);
    assert_memory_equal(bytes.data, again.data, bytes.size);
    qsa_snapshot_free(&snapshot);
    mini_free(&bytes);
    mini_free(&again);
    qsa_cache_destroy(from);
    qsa_cache_destroy(to);
}

/* Whichever of two that share pages is named first: an extent is the union of what they use. */
static void an_evicted_or_shorter_fork_may_come_first(void **state)
{
    (void)state;
    static const struct {
        int64_t at, evicted;
    } forks[] = {{100, 8}, {100, 60}, {100, 64}, {100, 72}, {70, 0}, {70, 12}, {130, 68}};
    const qsa_config config = mini_config();
    for (size_t i = 0; i < 2 * sizeof forks / sizeof *forks; i++) {
        qsa_cache *from = mini_create(&config), *to = mini_create(&config);
        qsa_seq parent, fork;
        mini_ok(qsa_seq_open(from, &parent));
        mini_feed(from, parent, 0, 130, 1, NULL);
        mini_ok(qsa_seq_fork(from, parent, forks[i / 2].at, &fork));
        mini_ok(qsa_seq_evict(from, fork, forks[i / 2].evicted));
        const qsa_seq both[2] = {i % 2 ? parent : fork, i % 2 ? fork : parent};
        mini_bytes bytes = save(from, both, 2);
        qsa_snapshot snapshot = load(to, &bytes);
        assert_int_equal(snapshot.tokens, 130); /* the parent's; the fork has none of its own */
        for (int s = 0; s < 2; s++) {
            assert_true(mini_digest(from, both[s]) == mini_digest(to, snapshot.sequences[s]));
            mini_ok(qsa_seq_verify_index(to, snapshot.sequences[s]));
        }
        assert_true(qsa_cache_free_tokens(from) == qsa_cache_free_tokens(to));
        mini_bytes again = save(to, snapshot.sequences, 2);
        assert_int_equal(bytes.size, again.size);
        assert_memory_equal(bytes.data, again.data, bytes.size);
        qsa_snapshot_free(&snapshot);
        mini_free(&bytes);
        mini_free(&again);
        qsa_cache_destroy(from);
        qsa_cache_destroy(to);
    }
}

/* A run that begins anywhere in its first page, alone: groups of two, four and eight tokens. */
static void a_run_that_begins_within_a_page_comes_back(void **state)
{
    (void)state;
    for (uint32_t ratio = 1; ratio <= 8; ratio *= 2)
        for (int64_t evicted = 0; evicted <= 72; evicted += ratio) {
            qsa_config config = mini_config();
            config.ratio = ratio;
            config.kv_heads = 2;
            qsa_cache *from = mini_create(&config), *to = mini_create(&config);
            qsa_seq seq;
            mini_ok(qsa_seq_open(from, &seq));
            mini_feed(from, seq, 0, 131, 1, NULL);
            mini_ok(qsa_seq_evict(from, seq, evicted));
            mini_bytes bytes = save(from, &seq, 1);
            qsa_snapshot snapshot = load(to, &bytes);
            assert_int_equal(snapshot.tokens, 131 - evicted);
            assert_true(mini_digest(from, seq) == mini_digest(to, snapshot.sequences[0]));
            qsa_snapshot_free(&snapshot);
            mini_free(&bytes);
            qsa_cache_destroy(from);
            qsa_cache_destroy(to);
        }
}

static void host_sections_have_their_own_tags(void **state)
{
    (void)state;
    const qsa_config config = mini_config();
    qsa_cache *cache = mini_create(&config);
    qsa_seq seq;
    mini_ok(qsa_seq_open(cache, &seq));
    mini_bytes bytes = {0};
    const qsa_writer writer = mini_writer(&bytes);
    for (uint32_t twin = 0; twin < 3; twin++) {
        qsa_section sections[4] = {{0, "a", 1}, {1, "b", 1}, {2, "c", 1}, {twin, "d", 1}};
        assert_int_equal(qsa_snapshot_write(cache, &seq, 1, sections, 4, 42, &writer), QSA_E_ARGUMENT);
        assert_non_null(strstr(qsa_error_detail(), "and 3 have one tag"));
        sections[3] = (qsa_section){3, NULL, 1};
        assert_int_equal(qsa_snapshot_write(cache, &seq, 1, sections, 4, 42, &writer), QSA_E_ARGUMENT);
    }
    assert_int_equal(bytes.size, 0);
    mini_free(&bytes);
    qsa_cache_destroy(cache);
}

/* Pages and sequences to spare: none, and one too few. */
static void a_restore_fits_exactly(void **state)
{
    (void)state;
    enum { PAGES = 3 };
    qsa_config config = mini_config();
    qsa_cache *from = mini_create(&config);
    qsa_seq seqs[2];
    for (int i = 0; i < 2; i++) {
        mini_ok(qsa_seq_open(from, &seqs[i]));
        mini_feed(from, seqs[i], 0, i == 0 ? 65 : 64, 1 + (uint64_t)i, NULL);
    }
    mini_bytes bytes = save(from, seqs, 2);
    for (uint32_t spare = 0; spare < 4; spare++) {
        config.capacity_tokens = (PAGES - spare % 2) * QSA_PAGE_TOKENS;
        config.max_sequences = 2 - spare / 2;
        qsa_cache *to = mini_create(&config);
        if (spare == 0) {
            qsa_snapshot snapshot = load(to, &bytes);
            assert_int_equal(qsa_cache_free_tokens(to), 0);
            for (int i = 0; i < 2; i++)
                assert_true(mini_digest(from, seqs[i]) == mini_digest(to, snapshot.sequences[i]));
            qsa_snapshot_free(&snapshot);
        } else {
            qsa_snapshot snapshot;
            const qsa_reader reader = mini_reader(&bytes);
            assert_int_equal(qsa_snapshot_read(to, 42, &reader, &snapshot), QSA_E_FULL);
            assert_non_null(strstr(qsa_error_detail(), spare == 1 ? "3 pages, 2 are free" : "2 sequences, 1"));
            assert_int_equal(qsa_cache_free_tokens(to), config.capacity_tokens);
        }
        qsa_cache_destroy(to);
    }
    mini_free(&bytes);
    qsa_cache_destroy(from);
}

/* A live cache beside which damaged bytes are read. */
typedef struct victim {
    qsa_cache *cache;
    qsa_seq seq;
    uint64_t state;
} victim;

static victim make_victim(const qsa_config *config)
{
    victim v = {.cache = mini_create(config)};
    mini_ok(qsa_seq_open(v.cache, &v.seq));
    mini_feed(v.cache, v.seq, 0, 20, 3, NULL);
    v.state = mini_state(v.cache, &v.seq, 1);
    return v;
}

static void refused(const victim *v, mini_bytes *bytes)
{
    qsa_snapshot snapshot;
    qsa_reader reader = mini_reader(bytes);
    assert_int_not_equal(qsa_snapshot_read(v->cache, 42, &reader, &snapshot), QSA_OK);
    assert_true(mini_state(v->cache, &v->seq, 1) == v->state);
}

static mini_bytes small_snapshot(const qsa_config *config)
{
    qsa_cache *cache = mini_create(config);
    qsa_seq seq;
    mini_ok(qsa_seq_open(cache, &seq));
    mini_feed(cache, seq, 0, 13, 1, NULL);
    mini_bytes bytes = save(cache, &seq, 1);
    qsa_cache_destroy(cache);
    return bytes;
}

static void every_truncation_and_every_flipped_bit_is_refused(void **state)
{
    (void)state;
    const qsa_config config = mini_config();
    mini_bytes bytes = small_snapshot(&config);
    victim v = make_victim(&config);
    const size_t size = bytes.size;
    for (bytes.size = 0; bytes.size < size; bytes.size++)
        refused(&v, &bytes);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        refused(&v, &bytes);
        bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    qsa_snapshot snapshot = load(v.cache, &bytes);
    qsa_snapshot_free(&snapshot);
    mini_free(&bytes);
    qsa_cache_destroy(v.cache);
}

static void every_64_bit_field_set_to_hostile_values_is_refused(void **state)
{
    (void)state;
    static const uint64_t hostile[] = {0, 1, INT32_MAX, UINT32_MAX, UINT64_C(1) << 63, UINT64_MAX};
    const qsa_config config = mini_config();
    mini_bytes bytes = small_snapshot(&config);
    victim v = make_victim(&config);
    for (size_t at = 0; at + 8 <= bytes.size; at += 4)
        for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
            uint64_t saved;
            memcpy(&saved, bytes.data + at, 8);
            if (saved == hostile[i])
                continue;
            memcpy(bytes.data + at, &hostile[i], 8);
            refused(&v, &bytes);
            memcpy(bytes.data + at, &saved, 8);
        }
    mini_free(&bytes);
    qsa_cache_destroy(v.cache);
}

static void another_shape_or_model_is_refused_with_both_values(void **state)
{
    (void)state;
    qsa_config config = mini_config();
    mini_bytes bytes = small_snapshot(&config);
    qsa_snapshot snapshot;
    qsa_reader reader = mini_reader(&bytes);
    qsa_cache *cache = mini_create(&config);
    assert_int_equal(qsa_snapshot_read(cache, 43, &reader, &snapshot), QSA_E_UNSUPPORTED);
    assert_non_null(
        strstr(qsa_error_detail(),
               "saved with another model: model digest 000000000000002a in the file, 000000000000002b here"));
    qsa_cache_destroy(cache);
    config.kv_type = QSA_KV_F32;
    cache = mini_create(&config);
    reader = mini_reader(&bytes);
    assert_int_equal(qsa_snapshot_read(cache, 42, &reader, &snapshot), QSA_E_UNSUPPORTED);
    assert_string_equal(qsa_error_detail(), "snapshot: kv_type is bf16 in the file, f32 here");
    qsa_cache_destroy(cache);
    config = mini_config();
    config.profile = QSA_PROFILE_F32;
    cache = mini_create(&config);
    reader = mini_reader(&bytes);
    assert_int_equal(qsa_snapshot_read(cache, 42, &reader, &snapshot), QSA_E_UNSUPPORTED);
    assert_string_equal(qsa_error_detail(), "snapshot: profile is bf16 in the file, f32 here");
    qsa_cache_destroy(cache);
    mini_free(&bytes);
}

/* Fields without a meaning are the defaults in every cache, so neither a snapshot nor its bytes depend on them. */
static void unused_fields_do_not_matter(void **state)
{
    (void)state;
    qsa_config plain = mini_config(), odd = mini_config(), found;
    odd.yarn = (qsa_yarn){0, 4096, 7, 5, 1.5f};
    odd.sections[0] = 0; /* all zero: every pair turns with t, as with {2, 0, 0} */
    qsa_cache *caches[2] = {mini_create(&plain), mini_create(&odd)};
    mini_ok(qsa_cache_config(caches[1], &found));
    assert_memory_equal(&found.yarn, &plain.yarn, sizeof found.yarn);
    for (int from = 0; from < 2; from++) {
        qsa_seq seq;
        mini_ok(qsa_seq_open(caches[from], &seq));
        mini_feed(caches[from], seq, 0, 30, 1, NULL);
        mini_bytes bytes = save(caches[from], &seq, 1);
        for (int to = 0; to < 2; to++) { /* its own, too */
            qsa_snapshot snapshot = load(caches[to], &bytes);
            assert_true(mini_digest(caches[to], snapshot.sequences[0]) == mini_digest(caches[from], seq));
            mini_ok(qsa_seq_close(caches[to], snapshot.sequences[0]));
            qsa_snapshot_free(&snapshot);
        }
        mini_free(&bytes);
    }
    qsa_cache_destroy(caches[0]);
    qsa_cache_destroy(caches[1]);
}

/* The norm weights are part of the model, in every layer and tensor. */
static void other_norm_weights_are_refused(void **state)
{
    (void)state;
    qsa_config config = mini_config();
    mini_bytes bytes = small_snapshot(&config);
    for (uint32_t at = 0; at < config.layers * 4; at++) {
        float changed[8] = {1, 1, 1, 1, 1, 1, 1, 1.5f};
        const float *weights[4] = {NULL, NULL, NULL, NULL};
        weights[at % 4] = changed;
        qsa_norm_weights norms[3] = {{0}};
        norms[at / 4] = (qsa_norm_weights){weights[0], weights[1], weights[2], weights[3]};
        config.norms = norms;
        qsa_cache *cache = mini_create(&config);
        qsa_snapshot snapshot;
        qsa_reader reader = mini_reader(&bytes);
        assert_int_equal(qsa_snapshot_read(cache, 42, &reader, &snapshot), QSA_E_UNSUPPORTED);
        assert_non_null(strstr(qsa_error_detail(), "saved with another model: norm weights"));
        qsa_cache_destroy(cache);
    }
    mini_free(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_loaded_saved_gives_the_same_bytes),
        cmocka_unit_test(shared_pages_stay_shared),
        cmocka_unit_test(an_evicted_or_shorter_fork_may_come_first),
        cmocka_unit_test(a_run_that_begins_within_a_page_comes_back),
        cmocka_unit_test(host_sections_have_their_own_tags),
        cmocka_unit_test(a_restore_fits_exactly),
        cmocka_unit_test(every_truncation_and_every_flipped_bit_is_refused),
        cmocka_unit_test(every_64_bit_field_set_to_hostile_values_is_refused),
        cmocka_unit_test(another_shape_or_model_is_refused_with_both_values),
        cmocka_unit_test(unused_fields_do_not_matter),
        cmocka_unit_test(other_norm_weights_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
