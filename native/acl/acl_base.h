/* acl_base.h - the same as acl.h, for programs that include this name. */
#ifndef NPUX_ACL_ACL_BASE_H
#define NPUX_ACL_ACL_BASE_H

#include "acl/acl.h"

#endif
