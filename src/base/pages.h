/* base/pages.h: large memory straight from the system: zero, and on the node of the thread that writes to a page first. */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include <stddef.h>

enum { HUGE_PAGE = 2 << 20 };

/* n_bytes > 0 of zeros, aligned to a page, from HUGE_PAGE on to that; the system is asked for huge pages there, since a stream
 * through 4 KB pages waits for a page walk at every one. Pages take memory when they are written first. NULL: out of memory. */
void *pages_map(size_t n_bytes);
void pages_unmap(void *data, size_t n_bytes); /* NULL is accepted */

#endif
