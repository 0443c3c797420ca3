/* site.h - from where a program made a call, so that a finding leads to a line of code.
 *
 * Threads: any; a thread's record is written by itself.
 * Locks:   a mutex of its own in site.c, a leaf.
 * Owns:    the names of places that aclsim_set_site was given, for the life of the process.
 * Invariant: text is always terminated; a place that is not known is said as such, never guessed.
 */
#ifndef ACLSIM_SITE_H
#define ACLSIM_SITE_H

struct sim_site {
    int fn;           /* enum sim_fn; -1: no ACL function */
    const void *from; /* where the function returns to */
    const char *name; /* what the caller said about itself, or NULL */
};

enum { SIM_SITE_TEXT = 176 };
struct sim_site_text {
    char text[SIM_SITE_TEXT];
};

struct sim_site sim_site_here(void); /* of the call that this thread is in */
/* "aclrtMemcpyAsync [/path/program+0x1234]", which addr2line turns into a file and a line, or
 * "aclrtMemcpyAsync [feed.py:31]". */
struct sim_site_text sim_site_text(struct sim_site site);

#endif
