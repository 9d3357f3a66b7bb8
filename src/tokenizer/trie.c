/* Checks a stored trie, so that no search can leave it or loop. */
#include "tokenizer/tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>

/* depth: one zeroed entry for each node. */
static bool check_nodes(const Trie *t, const TensorFile *f, const char *name, size_t n_values,
                        uint16_t *depth, Error *err)
{
    for (size_t i = 0; i < t->n; i++) {
        const uint32_t *at = t->nodes + 3 * i;
        if (at[1] && (at[0] <= i || at[1] > 256 || at[0] > t->n - at[1]))
            return fail(err, INPUT,
                        "%s: tensor %s: node %zu: expected at most 256 children between it and "
                        "%zu, found %u from %u on",
                        f->map.path, name, i, t->n, at[1], at[0]);
        for (size_t k = at[0]; k < at[0] + (size_t)at[1]; k++) {
            if (depth[k] || depth[i] == LONGEST_SOUGHT)
                return fail(err, INPUT, "%s: tensor %s: node %zu: expected %s", f->map.path, name,
                            k,
                            depth[k] ? "one parent, found two"
                                     : "strings of at most 1024 bytes, found a longer one");
            if (k > at[0] && t->labels[k] <= t->labels[k - 1])
                return fail(err, INPUT,
                            "%s: tensor %s_labels: node %zu: expected a label over %u, found %u",
                            f->map.path, name, k, t->labels[k - 1], t->labels[k]);
            depth[k] = (uint16_t)(depth[i] + 1);
        }
        if (at[2] > n_values)
            return fail(err, INPUT, "%s: tensor %s: node %zu: expected a value under %zu, found %u",
                        f->map.path, name, i, n_values, at[2] - 1);
    }
    return true;
}

bool trie_open(Trie *t, const TensorFile *f, const char *name, size_t n_values, Error *err)
{
    char labels_name[64];
    snprintf(labels_name, sizeof labels_name, "%s_labels", name);
    const Tensor *nodes  = vocab_table(f, name, DT_U32, -1, 3, err);
    const Tensor *labels =
        nodes ? vocab_table(f, labels_name, DT_U8, nodes->shape[0], 0, err) : NULL;
    if (!labels)
        return false;
    *t = (Trie){ .nodes = nodes->data, .labels = labels->data, .n = labels->n_elements };
    if (t->n == 0 || t->n > INT32_MAX)
        return fail(err, INPUT, "%s: tensor %s: expected 1 to %d nodes, found %zu", f->map.path,
                    name, INT32_MAX, t->n);
    uint16_t *depth = calloc(t->n, sizeof *depth);
    if (!depth)
        return no_memory(f->map.path, err);
    bool ok = check_nodes(t, f, name, n_values, depth, err);
    free(depth);
    for (size_t k = t->nodes[0]; ok && k < t->nodes[0] + (size_t)t->nodes[1]; k++)
        t->root[t->labels[k]] = (uint32_t)k;
    return ok;
}
