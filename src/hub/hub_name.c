/* hub/hub_name.c: names of published models. */
#include "hub/hub.h"

#include <stdio.h>
#include <string.h>

static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

/* The length of a name of an organization or a repository at s; 0: there is none. */
static size_t name_length(const char *s)
{
    const size_t n = strspn(s, LETTERS);
    for (size_t i = 0; i + 1 < n; i++)
        if ((s[i] == '.' || s[i] == '-') && s[i + 1] == s[i])
            return 0;
    return n <= 96 && *s != '-' && *s != '.' ? n : 0;
}

/* What follows one of the beginnings of an address; NULL: text has none. */
static const char *after_host(const char *text)
{
    static const char *const before[] = { "https://huggingface.co/", "https://hf.co/",
                                          "huggingface.co/",         "hf.co/", "hf://" };
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (strncmp(text, before[i], strlen(before[i])) == 0)
            return text + strlen(before[i]);
    return NULL;
}

bool hub_is_revision(const char *text)
{
    for (const char *s = text; *s; s++)
        if (*s != '/' && !strchr(LETTERS, *s))
            return false;
    return strlen(text) < HUB_REVISION && hub_is_file_path(text);
}

bool hub_is_hex(const char *text, size_t n)
{
    return strspn(text, "0123456789abcdef") == n && !text[n];
}

bool hub_is_file_path(const char *path)
{
    for (const char *part = path;; part++) {
        const size_t n = strcspn(part, "/");
        if (n == 0 || n > 255 || (n == 1 && *part == '.') || (n == 2 && memcmp(part, "..", 2) == 0))
            return false;
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)part[i] < 0x20 || part[i] == 0x7F || part[i] == '\\')
                return false;
        part += n;
        if (!*part)
            return strlen(path) < PATH_BYTES / 2;
    }
}

/* "/resolve/REVISION/FILE", "/blob/REVISION/FILE" or "/tree/REVISION" of an address, with what a
 * browser adds after a question mark. */
static bool read_address(const char *rest, HubName *out)
{
    static const char *const kinds[] = { "/resolve/", "/blob/", "/tree/" };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strncmp(rest, kinds[i], strlen(kinds[i])) != 0)
            continue;
        rest += strlen(kinds[i]);
        const size_t n = strcspn(rest, "/?"), n_file = rest[n] ? strcspn(rest + n + 1, "?#") : 0;
        if (n >= HUB_REVISION || n_file >= PATH_BYTES)
            return false;
        snprintf(out->revision, sizeof out->revision, "%.*s", (int)n, rest);
        if (n_file)
            snprintf(out->what, sizeof out->what, "%.*s", (int)n_file, rest + n + 1);
        return hub_is_revision(out->revision) && (!n_file || hub_is_file_path(out->what));
    }
    return *rest == '\0' || *rest == '?' || strcmp(rest, "/") == 0;
}

bool hub_name_read(const char *text, HubName *out)
{
    const char  *address = after_host(text), *id = address ? address : text;
    const size_t n_org = name_length(id);
    const size_t n_name = n_org && id[n_org] == '/' ? name_length(id + n_org + 1) : 0;
    const char  *rest   = id + n_org + 1 + n_name;
    *out = (HubName){ 0 };
    if (!n_name)
        return false;
    snprintf(out->repo, sizeof out->repo, "%.*s", (int)(n_org + 1 + n_name), id);
    if (*rest != ':')
        return address ? read_address(rest, out) : *rest == '\0';
    snprintf(out->what, sizeof out->what, "%s", rest + 1);
    return hub_is_file_path(rest + 1);
}
