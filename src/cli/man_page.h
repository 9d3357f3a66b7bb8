/* cli/man_page.h: the manual page tblock(1), printed from the tables. */
#ifndef CLI_MAN_PAGE_H
#define CLI_MAN_PAGE_H

void man_page_print(void); /* roff with the man(7) macros, to standard output */

#endif
