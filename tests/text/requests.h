/* tests/text/requests.h: the loop of a tool that answers lines of JSON, one at a time. */
#ifndef TESTS_TEXT_REQUESTS_H
#define TESTS_TEXT_REQUESTS_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include "base/json.h"

/* Each line of standard input is a request; answer prints its line. Returns the exit status. */
static inline int answer_requests(void (*answer)(const JsonNode *request))
{
    char   *line = NULL;
    size_t  cap = 0;
    ssize_t n;
    while ((n = getline(&line, &cap, stdin)) > 0) {
        JsonDoc d;
        Error   e = { 0 };
        if (json_doc_read(&d, line, (size_t)n, 0, "request", &e))
            answer(d.node);
        else
            printf("{\"error\": \"bad request\"}\n");
        fflush(stdout);
        json_doc_free(&d);
    }
    free(line);
    return 0;
}

#endif
