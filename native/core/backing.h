/* backing.h - where arenas get their spans: device memory, page-locked memory, ordinary memory.
 *
 * Threads: the ACL backings run on threads with a context (map) or on any thread (unmap); the ordinary one
 *          runs anywhere.
 * Locks:   none. Owns: nothing. Invariant: none.
 */
#ifndef NPUX_CORE_BACKING_H
#define NPUX_CORE_BACKING_H

#include "acl/table.h"
#include "core/arena.h"

struct npux_backing npux_backing_device(const struct npux_acl *acl);
struct npux_backing npux_backing_pinned(const struct npux_acl *acl);
struct npux_backing npux_backing_pageable(void);

#endif
