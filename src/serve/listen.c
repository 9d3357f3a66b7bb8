/* serve/listen.c: the socket that the server listens on: systemd's, or its own. It is opened before
 * the sandbox, in which no socket can be opened. */
#include "serve/server.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIRST_INHERITED = 3 }; /* the descriptor of a socket that the service manager opened */

/* A socket that systemd opened for us (sd_listen_fds(3)). *fd -1: none. */
static bool inherited_socket(int *fd, tblock_error *err)
{
    const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
    int         listens;
    socklen_t   size = sizeof listens;
    *fd = -1;
    if (!pid || !n || strtol(pid, NULL, 10) != (long)getpid())
        return true;
    if (strtol(n, NULL, 10) != 1)
        return fail(err, TBLOCK_USAGE, "LISTEN_FDS: expected one socket, found %s", n);
    if (getsockopt(FIRST_INHERITED, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens)
        return fail(err, TBLOCK_USAGE,
                    "LISTEN_FDS: expected a socket that listens (Accept=no), found another one");
    *fd = FIRST_INHERITED;
    return true;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24) == 127;
    return a->sa_family == AF_INET6
        && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

/* Who can reach an inherited socket? One without an internet address is local. */
static bool given_is_loopback(int fd)
{
    struct sockaddr_storage a = { 0 };
    socklen_t               n = sizeof a;
    return getsockname(fd, (struct sockaddr *)&a, &n) == 0
        && (is_loopback((struct sockaddr *)&a) || a.ss_family == AF_UNIX);
}

/* To look up names, a static glibc loads libraries of the system that it runs on. */
#if defined(STATIC_PROGRAM)
enum { HOST_FLAGS = AI_PASSIVE | AI_NUMERICSERV | AI_NUMERICHOST };
static const char no_name[] = " (a static program takes addresses alone, such as 127.0.0.1)";
#else
enum { HOST_FLAGS = AI_PASSIVE | AI_NUMERICSERV };
static const char no_name[] = "";
#endif

bool address_find(const char *host, int port, struct addrinfo **out, tblock_error *err)
{
    struct addrinfo hints = { .ai_flags = HOST_FLAGS, .ai_socktype = SOCK_STREAM };
    char            service[16];
    snprintf(service, sizeof service, "%d", port);
    int why = getaddrinfo(host, service, &hints, out);
    return !why
        || fail(err, TBLOCK_USAGE, "--host %s: %s%s", host, gai_strerror(why),
                why == EAI_NONAME ? no_name : "");
}

static bool find_address(const ServeOptions *o, int given, struct addrinfo **out, tblock_error *err)
{
    if (!address_find(o->host, o->port, out, err))
        return false;
    bool loopback = given >= 0 ? given_is_loopback(given) : is_loopback((*out)->ai_addr);
    return loopback || o->n_keys
        || fail(err, TBLOCK_USAGE,
                "%s %s: expected --key-file beside it, because other machines can reach that "
                "address",
                given >= 0 ? "a socket that was given, not" : "--host", o->host);
}

/* Port 0 takes a free one. */
static int open_socket(const ServeOptions *o, const struct addrinfo *a, tblock_error *err)
{
    const int on = 1;
    int       fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool      good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0
        && (a->ai_family != AF_INET6
            || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0)
        && bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0;
    if (good)
        return fd;
    fail(err, TBLOCK_USAGE, "--host %s --port %d: %s", o->host, o->port, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

int serve_listen(const ServeOptions *o, tblock_error *err)
{
    struct addrinfo *address = NULL;
    int              fd;
    if (!inherited_socket(&fd, err))
        return -1;
    if (!find_address(o, fd, &address, err))
        fd = -1;
    else if (fd < 0)
        fd = open_socket(o, address, err);
    if (address)
        freeaddrinfo(address);
    return fd;
}
