/* faults.h - which asynchronous copies the runtime reported as failed, by stream id and task id.
 *
 * In CONTINUE mode a stream synchronisation says that something failed, not what; the exception callback
 * says what, on a thread of the runtime, before that synchronisation returns. The callback is process-wide,
 * so this log is too.
 *
 * Threads: the runtime's callback thread writes, lanes read.
 * Locks:   one leaf mutex inside.
 * Owns:    nothing beyond its fixed memory.
 * Invariant: holds the newest records; a lane looks right after the synchronisation that failed.
 */
#ifndef NPUX_CORE_FAULTS_H
#define NPUX_CORE_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "acl/table.h"

/* Registers the callback if the library allows it without displacing somebody else's: the Register call
 * adds one; the Set call replaces, so it is used only when this process's runtime was initialised by us. */
bool npux_faults_install(const struct npux_acl *acl, bool we_initialised);
void npux_faults_remove(const struct npux_acl *acl);

/* The code of a failed task of this stream with an id in [first, last] (16 bit, wrapping); 0 if none was
 * reported. A record is used up by the first lookup that matches it. */
int npux_faults_take(int32_t device, int32_t stream_id, uint16_t first, uint16_t last);

#endif
