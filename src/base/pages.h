/* base/pages.h: large memory straight from the system: zeroed, and on the node of the thread
 * that first writes to a page. */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include <stddef.h>

enum { HUGE_PAGE = 2 << 20 };

/* n_bytes > 0 of zeros, aligned to a page; from HUGE_PAGE on aligned to HUGE_PAGE. There it asks
 * for huge pages, because a stream through 4 KB pages waits for a page walk at each of them.
 * Pages take memory when they are first written. NULL: no memory. Release with pages_unmap. */
void *pages_map(size_t n_bytes);
void pages_unmap(void *data, size_t n_bytes); /* accepts NULL */

#endif
