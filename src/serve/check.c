/* serve/check.c: queries the health of a server, for `tblock serve --check`: containers and scripts
 * that have no other client. */
#include "serve/server.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static const struct timeval PATIENCE = { 5, 0 }; /* of each step */

/* The status of a response's first line; 0: it is none. */
static int status_of(const char *line)
{
    int  status;
    char end;
    return sscanf(line, "HTTP/1.%*1[01] %3d%c", &status, &end) == 2 && end == ' ' ? status : 0;
}

/* Sends the request and reads the start of the first line. Less than that is no response. */
static bool ask(int fd, const struct addrinfo *a, int *status)
{
    static const char request[] =
        "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    char line[14] = { 0 };
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &PATIENCE, sizeof PATIENCE) != 0
        || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &PATIENCE, sizeof PATIENCE) != 0
        || connect(fd, a->ai_addr, a->ai_addrlen) != 0
        || send(fd, request, sizeof request - 1, MSG_NOSIGNAL) != (ssize_t)sizeof request - 1)
        return false;
    ssize_t n;
    do { /* a process that was suspended has not waited for all of that time */
        errno = 0;
        n     = recv(fd, line, sizeof line - 1, MSG_WAITALL);
    } while (n < 0 && errno == EINTR);
    *status = n == (ssize_t)sizeof line - 1 ? status_of(line) : 0;
    return n >= 0;
}

bool serve_check(const char *host, int port, tblock_error *err)
{
    struct addrinfo *address = NULL;
    int              status  = 0;
    if (!address_find(host, port, &address, err))
        return false;
    const int  fd    = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool asked = fd >= 0 && ask(fd, address, &status);
    const int  why   = errno == EAGAIN || errno == EINPROGRESS ? ETIMEDOUT : errno;
    freeaddrinfo(address);
    if (fd >= 0)
        close(fd);
    if (!asked)
        return fail(err, TBLOCK_NO, "--host %s --port %d: /health: %s", host, port, strerror(why));
    return status == 200
        || fail(err, TBLOCK_NO, "--host %s --port %d: /health: expected status 200, found %d%s",
                host, port, status, status ? "" : ", no answer in HTTP");
}
