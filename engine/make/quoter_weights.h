/* SPDX-License-Identifier: Apache-2.0 */
/* One fill function for each tensor that is not all zeros. Shapes are [rows][columns], row-major. */
#ifndef QSA_ENGINE_MAKE_QUOTER_WEIGHTS_H
#define QSA_ENGINE_MAKE_QUOTER_WEIGHTS_H

#include "make/quoter_plan.h"

quoter_fill quoter_fill_embedding, quoter_fill_output;
quoter_fill quoter_fill_stream_norm; /* ones, [streams * embedding] */

/* Delta nets. */
quoter_fill quoter_fill_state_qkv, quoter_fill_convolution, quoter_fill_decay, quoter_fill_decay_bias;
quoter_fill quoter_fill_state_norm, quoter_fill_state_out;

/* QSA layers. */
quoter_fill quoter_fill_q, quoter_fill_k, quoter_fill_v, quoter_fill_attention_out, quoter_fill_q_norm;
quoter_fill quoter_fill_k_norm, quoter_fill_index_q, quoter_fill_index_k, quoter_fill_index_norm;

/* Experts: those of the last layer carry the answer, all others are zero. */
quoter_fill quoter_fill_router, quoter_fill_expert_gate, quoter_fill_expert_up, quoter_fill_expert_down;
quoter_fill quoter_fill_shared_gate, quoter_fill_shared_up, quoter_fill_shared_down;

#endif
