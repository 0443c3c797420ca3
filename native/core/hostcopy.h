/* hostcopy.h - copies between ordinary and page-locked memory.
 *
 * Threads: any. Locks: none. Owns: nothing.
 * Invariant: what it wrote is visible to a thread, or a DMA, that is told of it by any release afterwards.
 */
#ifndef NPUX_CORE_HOSTCOPY_H
#define NPUX_CORE_HOSTCOPY_H

#include <stddef.h>

/* memcpy, but large copies do not pull their destination into the cache, where it would only be thrown out.
 */
void npux_copy(void *dst, const void *src, size_t nbytes);

#endif
