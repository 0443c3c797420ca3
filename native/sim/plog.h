/* plog.h - log files in the format of the simulated CANN release.
 *
 * Threads: any. Locks: its own mutex, a leaf. Owns: the open files.
 * Invariant: nothing is written unless ASCEND_PROCESS_LOG_PATH names a folder, or ASCEND_SLOG_PRINT_TO_STDOUT
 *            is 1, which sends the records there instead. (The real default, a folder in the user's home, is
 *            left alone: these are not logs of a device.)
 */
#ifndef ACLSIM_PLOG_H
#define ACLSIM_PLOG_H

enum sim_log_level { SIM_LOG_DEBUG, SIM_LOG_INFO, SIM_LOG_WARNING, SIM_LOG_ERROR };

/* One record of module RUNTIME; the file and line in it are the simulator's. */
#define sim_log(level, function, ...) \
    sim_log_at((level), "RUNTIME", __FILE__, __LINE__, (function), __VA_ARGS__)

void sim_log_at(enum sim_log_level level, const char *module, const char *file, int line,
                const char *function, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

#endif
