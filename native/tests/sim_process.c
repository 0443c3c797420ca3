/* sim_process.c - what happens to the process around the simulator: its end, fork, dlclose, a second name of
 * the library, signals during a wait. */
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim_util.h"

/* A child of fork may find locks of the sanitizer's own run-time library held for ever, so it cannot run exit
 * handlers there; and each end of a process takes the sanitizers a second. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define leave _exit
enum { TIMES = 4 };
#else
#define leave exit
enum { TIMES = 20 };
#endif

enum { NBYTES = 1 << 20 };

static void *dev, *pin;
static aclrtStream s;

static void nothing(void *data)
{
    (void)data;
}

static void set_up(void)
{
    OK(aclrtSetDevice(0));
    s = stream_new();
    dev = device_alloc(NBYTES);
    pin = pinned_alloc(NBYTES);
}

static void submit(int n)
{
    for (int i = 0; i < n; i++) {
        OK(aclrtMemcpyAsync(dev, NBYTES, pin, NBYTES, ACL_MEMCPY_HOST_TO_DEVICE, s));
        OK(aclrtLaunchHostFunc(s, nothing, NULL));
    }
}

/* The program ends while engines copy and callbacks run. */
static void end_at_work(void)
{
    set_up();
    submit(50);
    exit(0);
}

/* A child that only leaves: no lock of the parent may stop it. */
static void fork_at_work(void)
{
    set_up();
    for (int i = 0; i < TIMES; i++) {
        int status = -1;
        pid_t child;

        submit(4);
        child = fork();
        if (child == 0)
            leave(7);
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    OK(aclrtSynchronizeStream(s));
    exit(0);
}

/* A second name of the same file is the same library, and closing it leaves the engine threads their code. */
static void close_library(void)
{
    char path[4096], link_path[] = "libascendcl_XXXXXX";
    aclError (*count)(uint32_t *);
    Dl_info info;
    uint32_t n;
    void *handle;

    CHECK(dladdr((void *)(uintptr_t)&aclsim_abi, &info) != 0);
    CHECK(realpath(info.dli_fname, path) != NULL);
    CHECK(mkdtemp(link_path) != NULL);
    OK(rmdir(link_path));
    OK(symlink(path, link_path));
    snprintf(path, sizeof(path), "./%s", link_path);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unlink(link_path);
    CHECK(handle != NULL);
    *(void **)&count = dlsym(handle, "aclrtGetDeviceCount");
    set_up();
    submit(20);
    OK(count(&n));
    CHECK_EQ(aclsim_call_count("aclrtGetDeviceCount", 0), 1); /* one library, one count */
    OK(dlclose(handle));
    OK(dlclose(dlopen(info.dli_fname, RTLD_NOW)));
    OK(aclrtSynchronizeStream(s));
    exit(0);
}

static atomic_int n_signals;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&n_signals, 1);
}

static void *release_main(void *arg)
{
    pthread_t *waiter = arg;

    while (atomic_load(&n_signals) < TIMES)
        pthread_kill(*waiter, SIGUSR1);
    OK(aclsim_release_stream(s));
    return NULL;
}

/* Signals neither end a wait nor lose its end. */
static void interrupt_wait(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    pthread_t self = pthread_self(), thread;
    aclrtEvent event;

    set_up();
    OK(sigaction(SIGUSR1, &action, NULL));
    OK(aclrtCreateEvent(&event));
    for (int i = 0; i < 3; i++) {
        atomic_store(&n_signals, 0);
        OK(aclsim_hold_stream(s));
        submit(1);
        OK(aclrtRecordEvent(event, s));
        OK(pthread_create(&thread, NULL, release_main, &self));
        if (i == 0)
            OK(aclrtSynchronizeStream(s));
        else if (i == 1)
            OK(aclrtSynchronizeEvent(event));
        else
            OK(aclrtSynchronizeDeviceWithTimeout(60000));
        CHECK(atomic_load(&n_signals) >= TIMES && stream_complete(s));
        OK(pthread_join(thread, NULL));
    }
    exit(0);
}

static void in_child(void (*what)(void))
{
    int status = -1;
    pid_t child = fork(); /* before any call of the library in this process */

    if (child == 0) {
        alarm(60);
        what();
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
}

int main(void)
{
    for (int i = 0; i < TIMES; i++)
        in_child(end_at_work);
    in_child(fork_at_work);
    in_child(close_library);
    in_child(interrupt_wait);
    return 0;
}
