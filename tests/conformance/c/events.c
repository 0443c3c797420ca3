/* events.c - what events answer before and after their record.
 *
 * Threads: one. Locks: none. Owns: its events and streams.
 * Invariant: holds in every profile; the new kind of event only where the release has it.
 */
#include "conf.h"

#define OBSERVED "observed on the open runtime, CANN 9.2"
#define DOCS "aclrtCreateEventWithFlag docs, CANN 9.1"

static int recorded(aclrtEvent e)
{
    aclrtEventRecordedStatus status = (aclrtEventRecordedStatus)-1;
    aclError code = acl->aclrtQueryEventStatus(e, &status);

    return code == 0 ? (int)status : code;
}

static void flags(void)
{
    aclrtEvent e = NULL;

    check_code("a null output", DOCS, 100000, acl->aclrtCreateEventWithFlag(NULL, ACL_EVENT_SYNC));
    check_code("no flag", OBSERVED, 107000, acl->aclrtCreateEventWithFlag(&e, 0));
    check_code("unknown flags", OBSERVED, 107000, acl->aclrtCreateEventWithFlag(&e, 0x100));
    check_code("no event to destroy", DOCS, 100000, acl->aclrtDestroyEvent(NULL));
}

static void old_kind(aclrtStream s)
{
    aclrtEvent e = NULL;
    aclrtEventStatus old = (aclrtEventStatus)-1;

    check_code("an event is made", DOCS, 0, acl->aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
    check_code("before its record it is NOT_READY", OBSERVED, 0, recorded(e));
    check_code("the host need not wait for it", OBSERVED, 0, acl->aclrtSynchronizeEvent(e));
    check_code("it is recorded", DOCS, 0, acl->aclrtRecordEvent(e, s));
    check_code("the host waits for it", DOCS, 0, acl->aclrtSynchronizeEvent(e));
    check_code("now it is COMPLETE", DOCS, 1, recorded(e));
    if (conf_has(acl->aclrtQueryEvent != NULL, "aclrtQueryEvent")) {
        check_code("the old query works", DOCS, 0, acl->aclrtQueryEvent(e, &old));
        check_code("and calls COMPLETE 0", DOCS, ACL_EVENT_STATUS_COMPLETE, old);
    }
    check_code("it is reset", DOCS, 0, acl->aclrtResetEvent(e, s));
    check_code("the reset ends", DOCS, 0, acl->aclrtSynchronizeStreamWithTimeout(s, CONF_WAIT_MS));
    check_code("and changes no answer", OBSERVED, 1, recorded(e));
    check_code("it is destroyed", DOCS, 0, acl->aclrtDestroyEvent(e));
}

static void new_kind(aclrtStream s)
{
    aclrtEvent e = NULL;

    if (!conf_has(acl->aclrtCreateEventExWithFlag != NULL, "aclrtCreateEventExWithFlag"))
        return;
    check_code("a new one is made", DOCS, 0, acl->aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
    check_code("before its record it is COMPLETE", OBSERVED, 1, recorded(e));
    check_code("a wait for it is nothing", OBSERVED, 0, acl->aclrtStreamWaitEvent(s, e));
    check_code("and ends", OBSERVED, 0, acl->aclrtSynchronizeStreamWithTimeout(s, CONF_WAIT_MS));
    check_code("it cannot be reset", OBSERVED, 207000, acl->aclrtResetEvent(e, s));
    check_code("it is destroyed", DOCS, 0, acl->aclrtDestroyEvent(e));
}

/* A stream stands at an unrecorded event until another stream records it. */
static void order(aclrtStream s)
{
    aclrtStream other = conf_stream();
    aclrtEvent e = NULL;

    check_code("an event is made", DOCS, 0, acl->aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
    check_code("a stream waits for it", OBSERVED, 0, acl->aclrtStreamWaitEvent(s, e));
    check_code("and stands", OBSERVED, 507046, acl->aclrtSynchronizeStreamWithTimeout(s, 20));
    check_code("another records it", OBSERVED, 0, acl->aclrtRecordEvent(e, other));
    check_code("and it goes on", OBSERVED, 0, acl->aclrtSynchronizeStreamWithTimeout(s, CONF_WAIT_MS));
    acl->aclrtDestroyEvent(e);
    acl->aclrtDestroyStream(other);
}

int main(int argc, char **argv)
{
    aclrtStream s;

    conf_open(argc, argv);
    s = conf_stream();
    flags();
    old_kind(s);
    new_kind(s);
    order(s);
    acl->aclrtDestroyStream(s);
    return conf_end();
}
