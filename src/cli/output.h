/* cli/output.h: standard output with its errors noticed, JSON text, terminals.
 *
 * What is printed collects in a buffer that output_flush writes; the first error stays and output_flush reports it, so
 * printing itself returns nothing to check. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "terminal.h"

#include "base/report_rows.h"

void output_write(const char *data, size_t n);

/* printf to standard output; returns the number of bytes. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
int output_format(const char *fmt, ...);

/* From now on all of this goes to standard error: for help that nobody asked for. */
void output_to_stderr(void);

/* Write out what has collected. A full disk is TBLOCK_SYSTEM; a reader that went away is CLI_CLOSED, without a
 * message. */
bool output_flush(tblock_error *err);

/* Rows as the commands print them: as JSON, or as text with its labels at the left edge. */
#define OUTPUT_ROWS(json, width) \
    { .face = (json) ? FACE_JSON : FACE_TEXT, .colour = output_has_colour(), .label_width = (width), .plain = true }
bool output_rows(Rows *r, tblock_error *err); /* print and free them */

void output_report(const char *text); /* a report of the library, with a newline at its end */

/* A JSON string with quotes; bytes that are not UTF-8 become U+FFFD. */
void output_json_text(const char *text, size_t n);

/* "key": [1, 2, 3] */
void output_json_ids(const char *key, const int32_t *ids, size_t n);

bool output_is_terminal(void);
bool output_has_colour(void);
int  output_columns(void); /* of its terminal, COLUMNS first; elsewhere 80 */

#endif
