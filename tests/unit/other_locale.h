/* tests/unit/other_locale.h: a host whose decimal point is not ".". Include after test.h. */
#ifndef OTHER_LOCALE_H
#define OTHER_LOCALE_H

#include <locale.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const comma_locales[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "ru_RU.UTF-8",
                                             "pt_BR.UTF-8", "nl_NL.UTF-8", NULL };

/* Switch to a locale with this decimal point: an installed one, or one made for this test. */
static inline bool set_locale_with(const char *point, const char *const *names, const char *source)
{
    for (; *names; names++)
        if (setlocale(LC_ALL, *names) && strcmp(localeconv()->decimal_point, point) == 0)
            return true;
    char folder[] = "/tmp/tblock-locale-XXXXXX", command[200];
    if (!mkdtemp(folder))
        return false;
    snprintf(command, sizeof command, "localedef -i %s -f UTF-8 %s/xx_XX.UTF-8 >/dev/null 2>&1",
             source, folder);
    if (system(command) == 0) {
        setenv("LOCPATH", folder, 1);
        setlocale(LC_ALL, "xx_XX.UTF-8");
        unsetenv("LOCPATH");
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 && strcmp(localeconv()->decimal_point, point) == 0;
}

#endif
