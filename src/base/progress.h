/* base/progress.h: how far a long piece of work is, told to whoever asked for it. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

/* Who is told, and which part of the whole this piece of work is: from 0 to 1 is all of it. tell NULL,
 * or NULL for the struct: nobody asked. */
typedef struct Progress { void (*tell)(void *user, double done); void *user; double from, to; } Progress;

/* Tell that `done` of `all` of this piece is done. Call it on the thread that called the library. */
void progress_tell(const Progress *p, double done, double all);

/* The part of p from `from` to `to`, each 0 .. 1. */
Progress progress_part(const Progress *p, double from, double to);

#endif
