/* model/config_keys.h: the keys of the JSON config as a table, private to the config files of this room: config.c checks
 * ranges with it (no JSON needed), config_json.c reads and writes with it. */
#ifndef MODEL_CONFIG_KEYS_H
#define MODEL_CONFIG_KEYS_H

#include "model/config.h"

typedef enum KeyKind { KEY_INT, KEY_DOUBLE, KEY_BOOL, KEY_WORD, KEY_FAMILY, KEY_ROPE, KEY_EOS, KEY_LAYERS } KeyKind;

typedef struct ConfigKey {
    const char *name;
    KeyKind     kind;
    size_t      at;                  /* offset in Config, or in Rope                         */
    double      min, max;            /* inclusive; KEY_INT and KEY_DOUBLE                    */
    const char *const *words;        /* KEY_WORD: spelling of each value of the enum, NULL-terminated */
    unsigned    types;               /* keys of rope: bit mask of the RopeTypes that have it */
    bool        required;
    bool        sparse;              /* written only where it is not the default             */
    bool        or_false;            /* KEY_WORD: false is the first word, true the second   */
} ConfigKey;

extern const ConfigKey config_keys[]; /* in the order of docs/format.md; name NULL ends */
extern const ConfigKey rope_keys[];
extern const char *const rope_type_words[];

/* The value of an enum field (all are int-sized). */
int  config_word_get(const void *field);
void config_word_set(void *field, int value);

#endif
