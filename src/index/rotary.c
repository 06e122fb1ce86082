/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary frequencies and YaRN, SPEC section 6. Each step is rounded to f32 where the formula says so. */
#include "index/rotary.h"

#include "base/elementary.h"
#include "base/float_env.h"
#include "base/shape.h"
#include "base/status.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

#define PI 3.14159265358979323846

/* Ramp of YaRN between extrapolated (low pairs) and interpolated (high pairs) frequencies. */
typedef struct yarn_ramp {
    double low, high;
} yarn_ramp;

static double correction(double dims, double original, double theta, double rotations)
{
    return dims * log(original / (2 * PI * rotations)) / (2 * log(theta));
}

static yarn_ramp ramp_of(const qsa_config *config)
{
    assert(config->yarn.factor > 0 && config->yarn.original_context > 0 && config->theta > 1);
    const qsa_yarn *yarn = &config->yarn;
    double dims = config->rotary_dim;
    yarn_ramp ramp;
    ramp.low = fmax(floor(correction(dims, yarn->original_context, config->theta, yarn->beta_fast)), 0);
    ramp.high = fmin(ceil(correction(dims, yarn->original_context, config->theta, yarn->beta_slow)), dims - 1);
    if (ramp.low == ramp.high)
        ramp.high = ramp.low + 0.001;
    return ramp;
}

static float yarn_frequency(float power, float factor, const yarn_ramp *ramp, uint32_t i)
{
    float extrapolated = 1.0f / power;
    float interpolated = 1.0f / (factor * power);
    float position = (float)(i - ramp->low) / (float)(ramp->high - ramp->low);
    float clamped = position < 0 ? 0 : position > 1 ? 1 : position;
    float e = 1.0f - clamped;
    float from_interpolated = interpolated * (1.0f - e);
    float from_extrapolated = extrapolated * e;
    return from_interpolated + from_extrapolated;
}

static float attention_factor_of(const qsa_yarn *yarn)
{
    if (yarn->factor == 0)
        return 1;
    if (yarn->attention_factor != 0)
        return yarn->attention_factor;
    if (yarn->factor <= 1)
        return 1;
    return (float)(1 + 0.1 * log((double)yarn->factor));
}

static uint8_t coordinate_of(const uint32_t sections[3], uint32_t i)
{
    if (i % 3 == 1 && i < 3 * (uint64_t)sections[1])
        return 1;
    if (i % 3 == 2 && i < 3 * (uint64_t)sections[2])
        return 2;
    return 0;
}

static void fill_table(const qsa_config *config, qsa_rotary *out)
{
    assert(config->rotary_dim % 2 == 0 && config->rotary_dim / 2 <= QSA_MAX_DIM / 2);
    out->pairs = config->rotary_dim / 2;
    out->attention_factor = attention_factor_of(&config->yarn);
    yarn_ramp ramp = {0, 0};
    if (config->yarn.factor != 0)
        ramp = ramp_of(config);
    for (uint32_t i = 0; i < out->pairs; i++) {
        float exponent = (float)(2 * i) / (float)config->rotary_dim;
        float power = qsa_power(config->theta, exponent);
        out->inverse_frequency[i] =
            config->yarn.factor == 0 ? 1.0f / power : yarn_frequency(power, config->yarn.factor, &ramp, i);
        out->coordinate[i] = coordinate_of(config->sections, i);
    }
}

qsa_status qsa_rotary_init(const qsa_config *config, qsa_rotary *out_rotary)
{
    if (out_rotary == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "rotary: NULL argument");
    QSA_TRY(qsa_shape_check(config));
    qsa_rotary rotary = {0};
    qsa_float_env saved = qsa_float_env_enter();
    fill_table(config, &rotary);
    qsa_float_env_leave(saved);
    if (!(rotary.attention_factor > 0 && rotary.attention_factor <= 1024))
        return qsa_fail(QSA_E_LIMIT, "yarn: the attention factor %g is beyond 2^10", (double)rotary.attention_factor);
    for (uint32_t i = 0; i < rotary.pairs; i++)
        if (!isfinite(rotary.inverse_frequency[i]))
            return qsa_fail(QSA_E_ARGUMENT, "rotary: frequency %" PRIu32 " is not finite (theta, yarn)", i);
    *out_rotary = rotary;
    return QSA_OK;
}

void qsa_rotary_fill(const qsa_rotary *rotary, qsa_triple triple, float *out_cos_sin)
{
    const float coordinates[3] = {(float)triple.t, (float)triple.h, (float)triple.w};
    float *cos = out_cos_sin, *sin = out_cos_sin + rotary->pairs;
    for (uint32_t i = 0; i < rotary->pairs; i++) {
        float angle = coordinates[rotary->coordinate[i]] * rotary->inverse_frequency[i];
        qsa_sin_cos(angle, &sin[i], &cos[i]);
        cos[i] *= rotary->attention_factor;
        sin[i] *= rotary->attention_factor;
    }
}

static bool in_range(int32_t coordinate)
{
    return coordinate <= QSA_MAX_ROTARY_OFFSET && coordinate >= -QSA_MAX_ROTARY_OFFSET;
}

qsa_status qsa_rotary_cos_sin(const qsa_rotary *rotary, qsa_triple triple, float *out_cos, float *out_sin)
{
    if (rotary == NULL || out_cos == NULL || out_sin == NULL || rotary->pairs > QSA_MAX_DIM / 2)
        return qsa_fail(QSA_E_ARGUMENT, "rotary: NULL argument or no table");
    if (!in_range(triple.t) || !in_range(triple.h) || !in_range(triple.w))
        return qsa_fail(QSA_E_LIMIT, "rotary: (%" PRId32 ", %" PRId32 ", %" PRId32 ") is beyond 2^24", triple.t,
                        triple.h, triple.w);
    float both[QSA_MAX_DIM];
    qsa_float_env saved = qsa_float_env_enter();
    qsa_rotary_fill(rotary, triple, both);
    qsa_float_env_leave(saved);
    for (uint32_t i = 0; i < rotary->pairs; i++) {
        out_cos[i] = both[i];
        out_sin[i] = both[rotary->pairs + i];
    }
    return QSA_OK;
}
