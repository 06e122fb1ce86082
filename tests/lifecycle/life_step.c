/* Steps over several sequences of a life. */
#include "life_model.h"

#include <stdlib.h>

typedef struct plan {
    uint32_t n, tokens;
    qsa_entry entries[LIFE_SEQUENCES];
    walker *who[LIFE_SEQUENCES];
    uint32_t keep[LIFE_SEQUENCES];
    qsa_triple triples[LIFE_SEQUENCES][LIFE_LONGEST];
} plan;

/* How many tokens to add: mostly few, mostly so that the length comes near the cut. */
static uint32_t choose_tokens(life *l, const walker *one)
{
    const life_rules *r = &l->rules;
    if (one->n < r->low && life_below(l, 2))
        return r->low - one->n + life_below(l, r->high - r->low + 1);
    return life_below(l, 6) == 0 ? 1 + life_below(l, 60) : 1 + life_below(l, 5);
}

static void plan_entry(plan *p, walker *one, int64_t position, uint32_t n)
{
    const uint32_t e = p->n;
    for (uint32_t t = 0; t < n; t++) {
        int32_t frame = (int32_t)one->frame, at = (int32_t)position + (int32_t)t - frame;
        p->triples[e][t] = one->images ? (qsa_triple){frame + at / 7, frame + at / 7 + at % 3, frame + at / 7 + at % 5}
                                       : (qsa_triple){frame + at, frame + at, frame + at};
    }
    p->who[e] = one;
    p->keep[e] = n;
    p->entries[e] =
        (qsa_entry){.seq = one->seq, .position = position, .tokens = n, .triples = one->images ? p->triples[e] : NULL};
    p->tokens += n;
    p->n++;
}

static void plan_some(life *l, plan *p, walker *one)
{
    const uint32_t n = choose_tokens(l, one);
    if (one->n + n > l->rules.longest || p->tokens + n > l->rules.config.max_step_tokens)
        return;
    plan_entry(p, one, one->placed ? one->anchor + one->n : life_below(l, 2) * (int64_t)life_below(l, 5000), n);
    if (life_below(l, 3) == 0)
        p->keep[p->n - 1] = life_below(l, n + 1);
}

/* Of a long entry the first, the last and a few between. */
static bool is_looked_at(life *l, uint32_t t, uint32_t n)
{
    return n <= 64 || t < 2 || t + 4 > n || life_below(l, 64) == 0;
}

/* The model learns the tokens of one entry; its queries are compared. */
static void compare_entry(life *l, const plan *p, uint32_t e, const world_batch *batch, uint32_t token)
{
    walker *one = p->who[e];
    const uint32_t n = p->entries[e].tokens, stored = one->n;
    if (!one->placed) {
        walker_forget(one);
        one->anchor = p->entries[e].position;
    }
    walker_need_model(l, one);
    for (uint32_t t = 0; t < n; t++) {
        const int32_t frame = (int32_t)one->frame;
        const qsa_triple *absolute = &p->triples[e][t];
        one->ids[stored + t] = l->next_id + token + t;
        one->relative[stored + t] = (qsa_triple){absolute->t - frame, absolute->h - frame, absolute->w - frame};
    }
    walker_append(one, l, batch, token, n);
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t layer = 0; layer < l->rules.config.layers && is_looked_at(l, t, n); layer++)
            life_expect(l, "a query differs from the oracle",
                        world_oracle_agrees(&one->layer[layer], (int)(stored + t), batch, token + t, layer));
}

static void keep_tokens(const life *l, const plan *p, bool committed)
{
    for (uint32_t e = 0; e < p->n; e++) {
        walker *one = p->who[e];
        uint32_t kept = committed ? p->keep[e] : 0;
        walker_cut(one, one->n + kept);
        one->placed = one->placed || kept > 0;
        if (!one->placed) {
            one->anchor = 0;
            walker_forget(one);
        }
        if (kept > 0)
            walker_slide(l, one);
    }
}

/* While the step is open every verb and snapshot is refused. */
static void expect_busy(life *l, qsa_seq seq)
{
    qsa_seq out = {0};
    qsa_status status = QSA_OK;
    switch (life_below(l, 8)) {
    case 0:
        status = qsa_seq_rewind(l->cache, seq, 0);
        break;
    case 1:
        status = qsa_seq_evict(l->cache, seq, 0);
        break;
    case 2:
        status = qsa_seq_shift(l->cache, seq, 1);
        break;
    case 3:
        status = qsa_seq_fork(l->cache, seq, 0, &out);
        break;
    case 4:
        status = qsa_seq_close(l->cache, seq);
        break;
    case 5:
        status = qsa_cache_compact(l->cache);
        break;
    case 6:
        status = qsa_snapshot_write(l->cache, &seq, 1, NULL, 0, 0, NULL);
        break;
    default:
        status = qsa_snapshot_read(l->cache, 0, NULL, NULL);
        break;
    }
    life_expect(l, "busy", status == QSA_E_BUSY);
}

/* On this thread, in parts, or with a pool. */
static world_way any_way(life *l)
{
    static const uint32_t parts[] = {0, 1, 2, 3, 13};
    const uint32_t choice = life_below(l, 6);
    return choice == 5 ? (world_way){.threads = l->threads} : (world_way){.parts = parts[choice]};
}

static void run_plan(life *l, plan *p, bool commit)
{
    qsa_step *step;
    qsa_status status = qsa_step_begin(l->cache, p->entries, p->n, &step);
    if (status == QSA_E_FULL)
        return; /* a legal answer, and nothing happened */
    life_expect(l, "begin", status == QSA_OK);
    expect_busy(l, p->entries[0].seq);
    world_batch batch = world_batch_open(&l->rules.config, p->tokens, l->next_id);
    const world_way way = any_way(l);
    life_expect(l, "layers", world_layers(step, &batch, 0, p->tokens, way) == QSA_OK);
    for (uint32_t e = 0, token = 0; e < p->n; token += p->entries[e++].tokens)
        compare_entry(l, p, e, &batch, token);
    if (commit)
        life_expect(l, "commit", qsa_step_commit(step, p->keep) == QSA_OK);
    else
        qsa_step_abort(step);
    keep_tokens(l, p, commit);
    l->next_id += p->tokens;
    world_batch_close(&batch);
}

void life_step(life *l)
{
    plan *p = test_alloc(1, sizeof *p);
    for (uint32_t i = 0; i < l->rules.sequences; i++)
        if (l->walkers[i].open && life_below(l, 3) == 0)
            plan_some(l, p, &l->walkers[i]);
    if (p->n > 0)
        run_plan(l, p, life_below(l, 6) != 0);
    free(p);
}

void life_feed(life *l, walker *one, int64_t position, uint32_t n, uint32_t keep)
{
    plan *p = test_alloc(1, sizeof *p);
    l->doing = "feed";
    plan_entry(p, one, position, n);
    p->keep[0] = keep;
    run_plan(l, p, true);
    life_compare(l);
    free(p);
}

void life_bad_append(life *l, walker *one)
{
    qsa_step *step = NULL;
    int64_t frontier = one->anchor + one->n;
    qsa_entry entry = {.seq = one->seq, .position = frontier + 1 + life_below(l, 9), .tokens = 1};
    if (one->placed)
        life_expect(l, "a hole", qsa_step_begin(l->cache, &entry, 1, &step) == QSA_E_HOLE);
    entry.position = frontier - 1;
    if (one->placed && frontier > 0)
        life_expect(l, "a stored position", qsa_step_begin(l->cache, &entry, 1, &step) == QSA_E_STORED);
    entry.position = one->placed ? frontier : 0;
    const qsa_entry twice[2] = {entry, entry};
    life_expect(l, "a sequence twice", qsa_step_begin(l->cache, twice, 2, &step) == QSA_E_SEQUENCE);
    life_expect(l, "no step", step == NULL);
}
