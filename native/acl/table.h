/* table.h - the ACL functions as a struct of pointers, made from symbols.def.
 *
 * Threads: the table is written once by npux_acl_load and read-only afterwards.
 * Locks:   none.
 * Owns:    nothing; the library handle belongs to struct npux_acl_lib (loader.h).
 * Invariant: every MUST slot is non-NULL once npux_acl_load has returned 0.
 */
#ifndef NPUX_ACL_TABLE_H
#define NPUX_ACL_TABLE_H

#include "acl/abi.h"

struct npux_acl {
#define ACL_FN(result, name, need, since, parameters) result(*name) parameters;
#include "acl/symbols.def"
#undef ACL_FN
};

enum npux_need { NPUX_MAY = 0, NPUX_MUST = 1 };

/* One row of symbols.def, for tests, `info` and error texts. */
struct npux_symbol {
    const char *name;
    const char *since;
    const char *result;
    const char *parameters;
    enum npux_need need;
    size_t slot; /* offset of the pointer in struct npux_acl */
};

extern const struct npux_symbol npux_symbols[];
extern const size_t npux_n_symbols;

#endif
