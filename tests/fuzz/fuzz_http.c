/* tests/fuzz/fuzz_http.c: any bytes as what a client sends to tblock serve, on one half of a pair
 * of sockets. The client has closed its sending half; it leaves when nothing more is answered. */
#include "fuzz.h"
#include "small_server.h"

#if defined(HAVE_MICROHTTPD)

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SILENT_MS = 5 }; /* then it waits for the rest of half a request */

/* Answers, if there are any: HTTP's. */
static void read_answers(int fd)
{
    TextOut       o = { 0 };
    char          piece[1 << 14];
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    ssize_t       n = 1;
    while (n > 0 && poll(&ready, 1, SILENT_MS) > 0)
        if ((n = read(fd, piece, sizeof piece)) > 0)
            text_out_bytes(&o, piece, (size_t)n);
    claim(!o.failed && (o.n == 0 || (o.n > 12 && memcmp(o.text, "HTTP/1.", 7) == 0)));
    text_out_free(&o);
}

static struct MHD_Daemon *daemon_of(Server *s)
{
    const struct sockaddr_in here = { .sin_family      = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    tblock_error err;
    int          fd = s->daemon ? -1 : socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (!s->daemon)
        claim(fd >= 0 && bind(fd, (const struct sockaddr *)&here, sizeof here) == 0
              && listen(fd, 1) == 0 && prepare_start(s, &err) && http_start(s, fd, &err));
    return s->daemon;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct MHD_Daemon       *d  = daemon_of(small_server());
    const struct sockaddr_in us = { .sin_family = AF_INET };
    int                      pair[2];
    claim(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    n = n < 1 << 14 ? n : 1 << 14; /* what a pair holds without a reader */
    claim(send(pair[0], bytes, n, MSG_NOSIGNAL) == (ssize_t)n);
    shutdown(pair[0], SHUT_WR);
    claim(MHD_add_connection(d, pair[1], (const struct sockaddr *)&us, sizeof us) == MHD_YES);
    read_answers(pair[0]);
    close(pair[0]);
    return 0;
}

#endif

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "http"); }
#endif
