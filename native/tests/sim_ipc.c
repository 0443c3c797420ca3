/* sim_ipc.c - one event in two processes: this program starts itself again as the other one. */
#include "tests/sim_util.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 256 };

/* --- the other process: reads the handle, does what each byte says, answers with a byte --- */

static void answer(char c)
{
    CHECK_EQ(write(STDOUT_FILENO, &c, 1), 1);
}

static int serve(void)
{
    aclrtIpcEventHandle handle;
    aclrtStream s;
    aclrtEvent e;
    char command;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    s = stream_new();
    CHECK_EQ(read(STDIN_FILENO, &handle, sizeof(handle)), (ssize_t)sizeof(handle));
    OK(aclrtIpcOpenEventHandle(handle, &e));
    answer('o');
    while (read(STDIN_FILENO, &command, 1) == 1) {
        if (command == 'q')
            answer(event_complete(e) ? '1' : '0');
        else if (command == 'w')
            OK(aclrtStreamWaitEvent(s, e));
        else if (command == 'c')
            answer(stream_complete(s) ? '1' : '0');
        else if (command == 's')
            OK(aclrtSynchronizeStream(s));
        else if (command == 'e')
            OK(aclrtSynchronizeEvent(e));
        else if (command == 'h')
            OK(aclsim_hold_stream(s));
        else if (command == 'R')
            OK(aclsim_release_stream(s));
        else if (command == 'r') {
            void *dev = device_alloc(N), *pin = pinned_alloc(N);

            OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
            OK(aclrtRecordEvent(e, s));
        }
        if (command != 'q' && command != 'c')
            answer('k');
    }
    OK(aclrtDestroyEvent(e));
    OK(aclrtDestroyStream(s));
    OK(aclrtResetDevice(0));
    return 0;
}

/* --- this process --- */

static int to_child = -1, from_child = -1;
static pid_t child;

static void start(const char *self)
{
    int in[2], out[2];

    OK(pipe2(in, O_CLOEXEC));
    OK(pipe2(out, O_CLOEXEC));
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        execl(self, self, "serve", (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_child = in[1];
    from_child = out[0];
}

static void tell(char command)
{
    CHECK_EQ(write(to_child, &command, 1), 1);
}

static char hear(void)
{
    char c = 0;

    CHECK_EQ(read(from_child, &c, 1), 1);
    return c;
}

static char ask(char command)
{
    tell(command);
    return hear();
}

static void finish(void)
{
    int status = -1;

    close(to_child);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(from_child);
}

static void check_codes(void)
{
    aclrtIpcEventHandle handle = {{0}};
    aclrtEvent e, plain;

    OK(aclrtCreateEventExWithFlag(&plain, ACL_EVENT_SYNC));
    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
    CHECK_EQ(aclrtIpcGetEventHandle(e, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtIpcGetEventHandle(NULL, &handle), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtIpcGetEventHandle(plain, &handle), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(aclrtIpcOpenEventHandle(handle, NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(aclrtIpcOpenEventHandle(handle, &plain), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtIpcGetEventHandle(e, &handle));
    OK(aclrtDestroyEvent(e));
    CHECK_EQ(aclrtIpcGetEventHandle(e, &handle), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQ(aclrtIpcOpenEventHandle(handle, &e), ACL_ERROR_RT_PARAM_INVALID); /* nothing is left of it */
}

int main(int argc, char **argv)
{
    aclrtIpcEventHandle handle;
    aclrtStream s;
    aclrtEvent e;
    char *dev, *pin;
    double begin;

    if (argc > 1)
        return serve();
    start(argv[0]); /* before the library has threads */
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    check_codes();
    s = stream_new();
    dev = device_alloc(N);
    pin = pinned_alloc(N);
    fill(pin, N, 1);
    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
    CHECK(event_complete(e)); /* nothing recorded: nothing to wait for */
    OK(aclrtStreamWaitEvent(s, e));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtIpcGetEventHandle(e, &handle));
    CHECK_EQ(write(to_child, &handle, sizeof(handle)), (ssize_t)sizeof(handle));
    CHECK_EQ(hear(), 'o');

    /* Recorded here: pending there, and the stream there waits, until it completes. */
    CHECK_EQ(ask('q'), '1');
    OK(aclsim_hold_stream(s));
    OK(aclrtMemcpyAsync(dev, N, pin, N, ACL_MEMCPY_DEFAULT, s));
    OK(aclrtRecordEvent(e, s));
    CHECK(!event_complete(e));
    CHECK_EQ(ask('q'), '0');
    CHECK_EQ(ask('w'), 'k');
    CHECK_EQ(ask('c'), '0');
    tell('s');
    OK(aclsim_release_stream(s));
    CHECK_EQ(hear(), 'k');
    CHECK_EQ(ask('q'), '1');
    CHECK_EQ(ask('e'), 'k');
    OK(aclrtSynchronizeEvent(e));

    /* Recorded there: the same here. */
    CHECK_EQ(ask('h'), 'k');
    CHECK_EQ(ask('r'), 'k');
    CHECK(!event_complete(e));
    OK(aclrtStreamWaitEvent(s, e));
    CHECK(!stream_complete(s));
    CHECK_EQ(aclrtSynchronizeEventWithTimeout(e, 3), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    OK(aclrtStreamWaitEventWithTimeout(s, e, 1)); /* behind the other wait: its second begins after that */
    tell('R');
    OK(aclrtSynchronizeEvent(e));
    OK(aclrtSynchronizeStream(s));
    CHECK(event_complete(e));
    CHECK_EQ(hear(), 'k');

    /* A time limit holds for a record of the other process, too. */
    CHECK_EQ(ask('h'), 'k');
    CHECK_EQ(ask('r'), 'k');
    begin = now_s();
    OK(aclrtStreamWaitEventWithTimeout(s, e, 1));
    CHECK_EQ(aclrtSynchronizeStream(s), ACL_ERROR_RT_TASK_TIMEOUT);
    CHECK(now_s() - begin >= 1);
    CHECK_EQ(ask('R'), 'k');

    /* Destroyed here, it stays usable where it is open. */
    OK(aclrtSynchronizeEvent(e));
    OK(aclrtDestroyEvent(e));
    CHECK_EQ(ask('q'), '1');
    CHECK_EQ(ask('r'), 'k');
    CHECK_EQ(ask('e'), 'k');
    finish();
    OK(aclrtDestroyStream(s));
    OK(aclrtResetDevice(0));
    return 0;
}
