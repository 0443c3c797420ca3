/* plog.h - log files in the format of the simulated CANN release.
 *
 * Threads: any. Locks: its own mutex, a leaf. Owns: the open file.
 * Invariant: nothing is written unless ASCEND_PROCESS_LOG_PATH names a folder.
 */
#ifndef ACLSIM_PLOG_H
#define ACLSIM_PLOG_H

enum sim_log_level { SIM_LOG_DEBUG, SIM_LOG_INFO, SIM_LOG_WARNING, SIM_LOG_ERROR };

/* One record of module RUNTIME. */
void sim_log(enum sim_log_level level, const char *function, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
