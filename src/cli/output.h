/* cli/output.h: standard output with its errors noticed, JSON text, terminals.
 *
 * Printed text collects in a buffer, which output_flush writes. The first error is kept, and
 * output_flush reports it, so printing itself returns nothing to check. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "terminal.h"

#include "base/report_rows.h"

void output_write(const char *data, size_t n);

/* Like printf, to standard output. Returns the number of bytes. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
int output_format(const char *fmt, ...);

/* From now on everything goes to standard error. For help that nobody asked for. */
void output_to_stderr(void);

/* Writes the buffer. Fails with TBLOCK_SYSTEM (a full disk), or with CLI_CLOSED and no message
 * if the reader went away. */
bool output_flush(tblock_error *err);

/* Rows as the commands print them: as JSON, or as text with the labels at the left edge. */
#define OUTPUT_ROWS(json, width) \
    { .face = (json) ? FACE_JSON : FACE_TEXT, .colour = output_has_colour(), .label_width = (width), .plain = true }
bool output_rows(Rows *r, tblock_error *err); /* prints and frees them */

void output_report(const char *text); /* a report of the library; adds a newline if needed */

/* Prints a JSON string with quotes. Bytes that are not UTF-8 become U+FFFD. */
void output_json_text(const char *text, size_t n);

/* Prints "key": [1, 2, 3]. */
void output_json_ids(const char *key, const int32_t *ids, size_t n);

bool output_is_terminal(void);
bool output_has_colour(void);
int  output_columns(void); /* $COLUMNS, or those of the terminal; elsewhere 80 */

#endif
