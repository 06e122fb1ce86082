/* SPDX-License-Identifier: Apache-2.0 */
/* JSON output: valid whatever the bytes are. Everything that prints JSON goes through here.
 *
 * A path or a name from a file may hold bytes that are not UTF-8, which JSON cannot say. Each broken sequence of them
 * becomes U+FFFD; then the object also has KEY_hex with all bytes of the string, two hexadecimal digits each. A number
 * that is not finite is null. */
#ifndef QSA_CONSOLE_JSON_LINE_H
#define QSA_CONSOLE_JSON_LINE_H

#include <jansson.h>

/* Sets key, and KEY_hex where the text is not UTF-8. NULL: null. */
void json_line_set_text(json_t *object, const char *key, const char *text);

/* Sets key to a new value, which the object then owns; NULL (no memory) ends the program. */
void json_line_set(json_t *object, const char *key, json_t *value);

json_t *json_line_number(double value);

/* Prints the object as one line on standard output and frees it. */
void json_line_print(json_t *object);

#endif
