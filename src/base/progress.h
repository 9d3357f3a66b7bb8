/* base/progress.h: reports how far a long piece of work is. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

/* Whom to tell, and which part of the whole this piece of work is (from 0 to 1: all of it). A
 * NULL struct, or tell NULL: nobody asked. */
typedef struct Progress { void (*tell)(void *user, double done); void *user; double from, to; } Progress;

/* Tells that `done` of `all` of this piece is done. Call it on the thread that called the
 * library. */
void progress_tell(const Progress *p, double done, double all);

/* The part of p from `from` to `to`, each 0 .. 1. */
Progress progress_part(const Progress *p, double from, double to);

#endif
