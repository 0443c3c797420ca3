/* acl.h - the header that a program for ACL includes as "acl/acl.h".
 *
 * For users of the simulator: types, codes and functions that concern devices, memory, streams and events,
 * for C11 and C++11 or later. Models and operators are not here. Written from the documented numbers.
 */
#ifndef NPUX_ACL_ACL_H
#define NPUX_ACL_ACL_H

#include "acl/prototypes.h"

#endif
