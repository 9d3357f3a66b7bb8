/* tests/unit/sanitized.h: SANITIZED is 1 with a sanitizer (gcc's or clang's) that has an allocator
 * and system calls of its own: address, thread, memory. */
#ifndef SANITIZED_H
#define SANITIZED_H

#if defined(__has_feature) /* clang */
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) \
    || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if !defined(SANITIZED) && (defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)) /* gcc */
#define SANITIZED 1
#endif
#if !defined(SANITIZED)
#define SANITIZED 0
#endif

#endif
