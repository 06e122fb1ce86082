/* SPDX-License-Identifier: Apache-2.0 */
#include "console/model_config.h"

qsa_config model_config(const qsa_model_info *info)
{
    qsa_config config;
    qsa_config_init(&config);
    config.layers = info->qsa_layers;
    config.q_heads = info->q_heads;
    config.kv_heads = info->kv_heads;
    config.head_dim = info->head_dim;
    config.index_heads = info->index_heads;
    config.index_dim = info->index_dim;
    config.ratio = info->ratio;
    config.budget = info->budget;
    config.rotary_dim = info->rotary_dim;
    for (int i = 0; i < 3; i++)
        config.sections[i] = info->sections[i];
    config.theta = info->theta;
    config.eps = info->eps;
    config.yarn = info->yarn;
    return config;
}
