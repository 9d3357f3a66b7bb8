/* report/page.h: the parts of the HTML report. Private to this room. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include "report/info.h"

/* Text that may come from a file, for element content and quoted attributes: markup characters escaped, control characters
 * and bytes that are not UTF-8 shown as U+FFFD. */
void page_text(TextOut *o, const char *s);

/* A run of coloured pieces, each as wide as its share, with a legend under it. Colours are classes of page_style. */
typedef struct PagePiece { const char *name, *colour; double value; const char *text; } PagePiece;
void page_bar(TextOut *o, const PagePiece *piece, int n);

extern const char *const group_colours[GROUP_COUNT];
extern const char *const page_style[]; /* the style sheet in pieces; NULL ends it */

void draw_block_diagram(TextOut *o, const Info *info);  /* SVG: the block as data flow, with shapes  */

/* Is the block one that the drawing shows: norms before, rotary positions, a gate, no experts? Else its formulas stand there. */
bool diagram_shows(const Config *c);
void draw_block_formulas(TextOut *o, const Config *c);
void draw_flops_plot(TextOut *o, const Info *info);     /* SVG: FLOP for each token against length   */
void draw_kv_plot(TextOut *o, const Info *info);        /* SVG: bytes of the KV cache against length */

#endif
