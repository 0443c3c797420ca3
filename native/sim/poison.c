/* poison.c - see poison.h.
 *
 * Threads: see poison.h. Locks: none. Owns: tile_fd.
 * Invariant: see poison.h.
 */
#include "sim/poison.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t touch_limit = (size_t)64 << 20; /* larger blocks get their pages when they are written */
static const size_t freed_limit = (size_t)1 << 20;  /* larger blocks are given back when they are freed */
static const size_t tile_nbytes = (size_t)8 << 20;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int tile_fd = -1;

static void make_tile(void)
{
    void *bytes;
    int fd = memfd_create("aclsim-fresh", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, (off_t)tile_nbytes) != 0)
        return;
    bytes = mmap(NULL, tile_nbytes, PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return;
    memset(bytes, SIM_FRESH, tile_nbytes);
    munmap(bytes, tile_nbytes);
    tile_fd = fd;
}

static size_t page_nbytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Lets whole pages [low, high) show the tile, over and over; a write gives a page its own copy. */
static int map_tiles(uintptr_t low, uintptr_t high)
{
    pthread_once(&once, make_tile);
    if (tile_fd < 0)
        return -1;
    for (uintptr_t at = low; at < high; at += tile_nbytes) {
        size_t nbytes = high - at < tile_nbytes ? high - at : tile_nbytes;
        if (mmap((void *)at, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, tile_fd, 0) ==
            MAP_FAILED)
            return -1;
    }
    return 0;
}

void sim_poison_fresh(char *bytes, size_t nbytes)
{
    uintptr_t start = (uintptr_t)bytes, end = start + nbytes, page = page_nbytes();
    uintptr_t low = (start + page - 1) / page * page, high = end / page * page;

    if (nbytes <= touch_limit || map_tiles(low, high) != 0) {
        memset(bytes, SIM_FRESH, nbytes);
        return;
    }
    memset(bytes, SIM_FRESH, low - start);
    memset((void *)high, SIM_FRESH, end - high);
}

void sim_poison_freed(char *bytes, size_t nbytes)
{
    uintptr_t start = (uintptr_t)bytes, page = page_nbytes();
    uintptr_t low = (start + page - 1) / page * page, high = (start + nbytes) / page * page;

    if (nbytes <= freed_limit)
        memset(bytes, SIM_FREED, nbytes);
    else if (high > low)
        madvise((void *)low, high - low, MADV_DONTNEED);
}
