/* SPDX-License-Identifier: Apache-2.0 */
#include "text/decoder.h"

#include "base/error.h"
#include "text/utf8.h"

#include <assert.h>
#include <stdlib.h>

struct text_decoder {
    const tokenizer *tokens;
    utf8_stream stream;
    char text[]; /* [utf8_stream_bound(longest token)] */
};

qsa_status text_decoder_create(const tokenizer *tokens, text_decoder **out_decoder)
{
    assert(tokens != NULL && out_decoder != NULL);
    text_decoder *decoder = calloc(1, sizeof *decoder + utf8_stream_bound(tokenizer_longest_bytes(tokens)));
    if (!decoder)
        return engine_fail(QSA_E_MEMORY, "no memory for a text decoder");
    decoder->tokens = tokens;
    *out_decoder = decoder;
    return QSA_OK;
}

void text_decoder_destroy(text_decoder *decoder)
{
    free(decoder);
}

qsa_status text_decoder_push(text_decoder *decoder, int32_t id, const char **out_text, size_t *out_count)
{
    const char *bytes;
    size_t count;
    ENGINE_TRY(tokenizer_token_bytes(decoder->tokens, id, &bytes, &count));
    assert(count <= tokenizer_longest_bytes(decoder->tokens)); /* so that text has room */
    *out_count = utf8_stream_push(&decoder->stream, bytes, count, decoder->text);
    *out_text = decoder->text;
    return QSA_OK;
}

void text_decoder_finish(text_decoder *decoder, const char **out_text, size_t *out_count)
{
    *out_count = utf8_stream_finish(&decoder->stream, decoder->text);
    *out_text = decoder->text;
}
