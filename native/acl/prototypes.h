/* prototypes.h - the ACL functions as declarations, made from symbols.def. For the simulator and for C
 * programs that link against an ACL library; the engine goes through table.h instead. */
#ifndef NPUX_ACL_PROTOTYPES_H
#define NPUX_ACL_PROTOTYPES_H

#include "acl/abi.h"

#ifdef __cplusplus
extern "C" {
#endif
#define ACL_FN(result, name, need, since, parameters) result name parameters;
#include "acl/symbols.def"
#undef ACL_FN
#ifdef __cplusplus
}
#endif

#endif
