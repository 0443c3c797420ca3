/* json.h - reads one JSON text (RFC 8259) into a tree.
 *
 * Threads: none of its own; a tree belongs to one thread. Locks: none.
 * Owns:    the whole tree, from sim_json_parse to sim_json_free.
 * Invariant: objects nest at most 10 deep and arrays at most 10 deep (aclInit, CANN 9.1 docs), so that
 *          recursion over a tree is safe.
 */
#ifndef ACLSIM_JSON_H
#define ACLSIM_JSON_H

#include <stdbool.h>
#include <stddef.h>

enum { SIM_JSON_DEPTH = 10 };

enum sim_json_kind {
    SIM_JSON_NULL,
    SIM_JSON_BOOL,
    SIM_JSON_NUMBER,
    SIM_JSON_STRING,
    SIM_JSON_ARRAY,
    SIM_JSON_OBJECT
};

struct sim_json {
    enum sim_json_kind kind;
    char *key;              /* of a member, else NULL */
    char *text;             /* of a string its value, of a number or a word as written; else NULL */
    struct sim_json *first; /* of an array or object, in the order of the text */
    struct sim_json *next;
};

/* NULL with what is wrong, and at which byte, in why. The text need not end in a zero. */
struct sim_json *sim_json_parse(const char *text, size_t nbytes, char *why, size_t n_why);
void sim_json_free(struct sim_json *tree);

/* The last member of that name; NULL when there is none or this is no object. */
const struct sim_json *sim_json_get(const struct sim_json *object, const char *key);

#endif
