/* base/progress.h: how far a long piece of work is, told to whoever asked for it. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

/* Zeroed, or NULL for it: nobody asked. The range is the part of the whole that this piece of work is; to 0 stands for 1. */
typedef struct Progress { void (*tell)(void *user, double done); void *user; double from, to; } Progress;

/* `done` of `all` of this piece is done. From the thread that the caller of the library called from. */
void progress_tell(const Progress *p, double done, double all);

/* The part of p from `from` to `to`, each 0 .. 1. */
Progress progress_part(const Progress *p, double from, double to);

#endif
