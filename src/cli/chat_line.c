/* cli/chat_line.c: reads what the user types, with libedit if available; joins lines to
 * messages. */
#include "chat_session.h"

#include "command.h"

#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#ifdef HAVE_LIBEDIT
#include <histedit.h>
#endif

enum { MOST_MESSAGE = 1 << 20, HISTORY_LINES = 1000 };
static const char first_prompt[] = "> ", next_prompt[] = ". ", fence[] = "\"\"\"";

struct ChatLines {
    const char *prompt;  /* of the line being read */
    char       *file;    /* of the history; NULL: none */
    TextOut     line;    /* for plain lines */
#ifdef HAVE_LIBEDIT
    EditLine   *editor;  /* NULL: plain lines */
    History    *history;
#endif
};

/* Reads one byte of standard input: 1, 0 at its end, -1 with errno. EINTR means Ctrl-C. The
 * signal is blocked except inside ppoll, so that a Ctrl-C between the check and the wait is not
 * lost. */
static ssize_t read_byte(char *c)
{
    sigset_t      block, before;
    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    sigemptyset(&block);
    sigaddset(&block, SIGINT);
    for (;;) {
        sigprocmask(SIG_BLOCK, &block, &before);
        int ready = interrupted() ? -1 : ppoll(&input, 1, NULL, &before);
        int why = errno;
        sigprocmask(SIG_SETMASK, &before, NULL);
        errno = interrupted() ? EINTR : why;
        if (interrupted())
            return -1;
        if (ready < 0 && errno != EINTR) /* another signal, such as a resize: wait again */
            return -1;
        if (ready > 0)
            return read(STDIN_FILENO, c, 1);
    }
}

/* ---- Plain lines ----------------------------------------------------------------------------- */

static LineResult read_plain(ChatLines *l, const char **text, size_t *n, tblock_error *err)
{
    l->line.n = 0;
    fputs(l->prompt, stderr);
    for (char c;;) {
        ssize_t got = read_byte(&c);
        if (got < 0 && errno == EINTR)
            return LINE_INTERRUPT;
        if (got < 0) {
            fail(err, TBLOCK_SYSTEM, "standard input: %s", strerror(errno));
            return LINE_FAILED;
        }
        if (got == 0 && l->line.n == 0)
            return LINE_END;
        if (got == 0 || c == '\n')
            break;
        if (!text_out_add(&l->line, &c, 1, err))
            return LINE_FAILED;
    }
    *text = l->line.text ? l->line.text : "";
    *n = l->line.n;
    return LINE_READ;
}

/* ---- Edited lines ---------------------------------------------------------------------------- */

#ifdef HAVE_LIBEDIT
static char *prompt_of(EditLine *editor)
{
    void *l = NULL;
    el_get(editor, EL_CLIENTDATA, &l);
    return (char *)(uintptr_t)((ChatLines *)l)->prompt;
}

/* The next character, for the editor. Returns and errno as in read_byte. Skips bytes that are
 * not UTF-8. */
static int read_character(EditLine *editor, wchar_t *out)
{
    (void)editor;
    unsigned char b[4];
    for (;;) {
        size_t  n = 0, length = 1;
        while (n < length) {
            ssize_t got = read_byte((char *)&b[n]);
            if (got <= 0)
                return (int)got;
            if (n++ == 0)
                length = b[0] >= 0xF0 ? 4 : b[0] >= 0xE0 ? 3 : b[0] >= 0xC0 ? 2 : 1;
        }
        uint32_t code = 0;
        if (utf8_decode((char *)b, n, &code) != (int)n)
            continue;
        *out = (wchar_t)code;
        return 1;
    }
}

static LineResult read_edited(ChatLines *l, const char **text, size_t *n, tblock_error *err)
{
    int count = 0;
    errno = 0;
    el_resize(l->editor); /* the window may have been resized */
    const char *line = el_gets(l->editor, &count);
    if (interrupted())
        return LINE_INTERRUPT;
    if (!line && count < 0) {
        fail(err, TBLOCK_SYSTEM, "standard input: %s", strerror(errno));
        return LINE_FAILED;
    }
    if (!line || count == 0)
        return LINE_END;
    *text = line;
    *n = (size_t)count - (line[count - 1] == '\n');
    HistEvent event;
    if (*n)
        history(l->history, &event, H_ENTER, line);
    return LINE_READ;
}

/* Makes the editor move by characters, not bytes. Only this needs a locale; numbers are not
 * affected. */
static void choose_characters(void)
{
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        setlocale(LC_CTYPE, "");
}

static void open_editor(ChatLines *l)
{
    HistEvent event;
    if (!terminal_is_capable(STDERR_FILENO))
        return;
    choose_characters();
    l->history = history_init();
    l->editor = l->history ? el_init("tblock", stdin, stderr, stderr) : NULL;
    if (!l->editor)
        return;
    history(l->history, &event, H_SETSIZE, HISTORY_LINES);
    history(l->history, &event, H_SETUNIQUE, 1);
    if (l->file)
        history(l->history, &event, H_LOAD, l->file);
    el_set(l->editor, EL_CLIENTDATA, l);
    el_set(l->editor, EL_PROMPT, prompt_of);
    el_set(l->editor, EL_GETCFN, read_character);
    el_set(l->editor, EL_EDITOR, "emacs");
    el_set(l->editor, EL_SIGNAL, 0); /* Ctrl-C is ours */
    el_set(l->editor, EL_HIST, history, l->history);
    el_set(l->editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
}

static void save_history(const ChatLines *l)
{
    HistEvent event;
    if (l->editor && l->file)
        history(l->history, &event, H_SAVE, l->file);
}

static void close_editor(ChatLines *l)
{
    if (l->editor)
        el_end(l->editor);
    if (l->history)
        history_end(l->history);
}
#else
static void open_editor(ChatLines *l) { (void)l; }
static void save_history(const ChatLines *l) { (void)l; }
static void close_editor(ChatLines *l) { (void)l; }
#endif

static LineResult read_line(ChatLines *l, const char *prompt, const char **text, size_t *n,
                            tblock_error *err)
{
    l->prompt = prompt;
#ifdef HAVE_LIBEDIT
    if (l->editor)
        return read_edited(l, text, n, err);
#endif
    return read_plain(l, text, n, err);
}

/* ---- History file ---------------------------------------------------------------------------- */

/* Creates the folders of path after its first `from` bytes, for this user only. */
static void make_folders(char *path, size_t from)
{
    for (char *slash = strchr(path + from, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (*path)
            mkdir(path, 0700);
        *slash = '/';
    }
}

/* The name of the history file if it can be written, else NULL. */
static char *history_file(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char        path[PATH_MAX];
    /* A relative path must be ignored (XDG specification). */
    bool        own = state && *state == '/';
    if (!own && (!home || *home != '/'))
        return NULL;
    int n = snprintf(path, sizeof path, "%s%s/tblock/history", own ? state : home,
                     own ? "" : "/.local/state");
    if (n < 0 || n >= (int)sizeof path)
        return NULL;
    make_folders(path, strlen(own ? state : home));
    FILE *f = fopen(path, "ae");
    if (!f)
        return NULL;
    fchmod(fileno(f), S_IRUSR | S_IWUSR);
    fclose(f);
    return strdup(path);
}

/* ---- Messages -------------------------------------------------------------------------------- */

ChatLines *chat_lines_open(bool keep_history, tblock_error *err)
{
    ChatLines *l = calloc(1, sizeof *l);
    if (!l) {
        no_memory(NULL, err);
        return NULL;
    }
    l->file = keep_history ? history_file() : NULL;
    open_editor(l);
    return l;
}

void chat_lines_close(ChatLines *l)
{
    if (!l)
        return;
    save_history(l);
    close_editor(l);
    free(l->line.text);
    free(l->file);
    free(l);
}

static bool is_fence(const char *text, size_t n)
{
    return n == strlen(fence) && memcmp(text, fence, n) == 0;
}

LineResult chat_lines_read(ChatLines *l, TextOut *out, tblock_error *err)
{
    bool fenced = false;
    out->n = 0;
    for (size_t lines = 0;; lines++) {
        const char *text = NULL;
        size_t      n = 0;
        LineResult  result = read_line(l, lines ? next_prompt : first_prompt, &text, &n, err);
        if (result == LINE_END && lines)
            return out->n ? LINE_READ : LINE_END;
        if (result != LINE_READ)
            return result;
        if (is_fence(text, n) && (fenced || lines == 0)) {
            if (fenced)
                break;
            fenced = true;
            continue;
        }
        bool more = !fenced && n && text[n - 1] == '\\';
        if (out->n + n > MOST_MESSAGE) {
            fail(err, TBLOCK_USAGE, "a message has more than %d bytes", MOST_MESSAGE);
            return LINE_FAILED;
        }
        if (!text_out_add(out, text, n - more, err)
            || ((fenced || more) && !text_out_add(out, "\n", 1, err)))
            return LINE_FAILED;
        if (!fenced && !more)
            break;
    }
    if (fenced && out->n)
        out->n--; /* the newline before the closing fence */
    save_history(l);
    return LINE_READ;
}
