/* core_layout.c - strided reads and writes against a naive reference, in random pieces. */
#include "core/layout.h"

#include <stdint.h>
#include <string.h>

#include "tests/engine_fixture.h"

enum { MAX_DIMS = 6, ROOM = 1 << 16 };

struct scene {
    size_t itemsize;
    int ndim;
    ptrdiff_t shape[MAX_DIMS], strides[MAX_DIMS];
    size_t nbytes;
    char *base;
};

static uint64_t rng;

/* Random extents; strides from contiguous, permuted, gapped, reversed, zero and overlapping ones. */
static bool make_scene(struct scene *s, char *room)
{
    static const size_t itemsizes[] = {1, 2, 3, 4, 8, 12, 16, 24};
    ptrdiff_t low = 0, high = 0, span;
    size_t n = 1;
    int order[MAX_DIMS];

    s->itemsize = itemsizes[rng_below(&rng, 8)];
    s->ndim = (int)rng_below(&rng, MAX_DIMS + 1);
    for (int i = 0; i < s->ndim; i++) {
        s->shape[i] = rng_below(&rng, 25) == 0 ? 0 : 1 + (ptrdiff_t)rng_below(&rng, s->ndim > 3 ? 4 : 9);
        order[i] = i;
        n *= (size_t)s->shape[i];
    }
    for (int i = s->ndim - 1; i > 0; i--) { /* a random axis order, often the identity */
        int j = rng_below(&rng, 3) == 0 ? (int)rng_below(&rng, (size_t)i + 1) : i;
        int t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    span = (ptrdiff_t)s->itemsize;
    for (int i = s->ndim - 1; i >= 0; i--) {
        int axis = order[i];
        if (rng_below(&rng, 4) == 0)
            span += (ptrdiff_t)(rng_below(&rng, 3) * (rng_below(&rng, 2) == 0 ? s->itemsize : 1));
        s->strides[axis] = span;
        span *= s->shape[axis] > 0 ? s->shape[axis] : 1;
        if (rng_below(&rng, 4) == 0)
            s->strides[axis] = -s->strides[axis];
        if (rng_below(&rng, 10) == 0)
            s->strides[axis] = 0;
        if (rng_below(&rng, 20) == 0)
            s->strides[axis] = 1; /* elements overlap */
    }
    for (int i = 0; i < s->ndim; i++) {
        ptrdiff_t reach = s->shape[i] > 0 ? (s->shape[i] - 1) * s->strides[i] : 0;
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    s->nbytes = n * s->itemsize;
    s->base = room - low;
    return high - low + (ptrdiff_t)s->itemsize <= ROOM && s->nbytes <= ROOM;
}

/* Where byte k lies, by division only. */
static char *locate(const struct scene *s, size_t k)
{
    size_t element = k / s->itemsize;
    char *at = s->base + k % s->itemsize;

    for (int i = s->ndim - 1; i >= 0; i--) {
        at += (ptrdiff_t)(element % (size_t)s->shape[i]) * s->strides[i];
        element /= (size_t)s->shape[i];
    }
    return at;
}

static size_t next_piece(const struct scene *s, size_t offset)
{
    size_t left = s->nbytes - offset;
    size_t piece = rng_below(&rng, 3) == 0 ? 1 + rng_below(&rng, left) : 1 + rng_below(&rng, 3 * s->itemsize);
    return piece < left ? piece : left;
}

static void check_read(const struct scene *s, const struct npux_host *host)
{
    static char flat[ROOM + 16];

    memset(flat, 0x5a, s->nbytes + 16);
    for (size_t offset = 0, piece; offset < s->nbytes; offset += piece) {
        piece = next_piece(s, offset);
        npux_host_read(host, offset, flat + offset, piece);
        CHECK_EQ(flat[offset + piece], 0x5a); /* not one byte too many */
    }
    for (size_t k = 0; k < s->nbytes; k++)
        CHECK_EQ(flat[k], *locate(s, k));
}

/* Some elements share memory; nobody may ask for a write to such a layout, so which one wins is not defined.
 */
static bool overlaps_itself(const struct scene *s, const char *room)
{
    static bool hit[ROOM];

    memset(hit, 0, sizeof(hit));
    for (size_t k = 0; k < s->nbytes; k++) {
        bool *seen = &hit[locate(s, k) - room];
        if (*seen)
            return true;
        *seen = true;
    }
    return false;
}

static void check_write(const struct scene *s, const struct npux_host *host, char *room)
{
    static char flat[ROOM], want[ROOM], before[ROOM];

    for (size_t k = 0; k < s->nbytes; k++)
        flat[k] = (char)rng_next(&rng);
    memcpy(before, room, ROOM);
    for (size_t k = 0; k < s->nbytes; k++)
        *locate(s, k) = flat[k];
    memcpy(want, room, ROOM);
    memcpy(room, before, ROOM);
    for (size_t offset = 0, piece; offset < s->nbytes; offset += piece) {
        piece = next_piece(s, offset);
        npux_host_write(host, offset, flat + offset, piece);
    }
    CHECK(memcmp(room, want, ROOM) == 0); /* also: nothing between the elements was touched */
}

/* Large enough for several tiles in both directions, with ends that are no multiple of one. */
static void check_transposed(void)
{
    static char room[ROOM];

    for (size_t itemsize = 1; itemsize <= 16; itemsize *= 2)
        for (int backwards = 0; backwards < 2; backwards++) {
            ptrdiff_t row = (ptrdiff_t)itemsize * (backwards ? -1 : 1);
            ptrdiff_t n_rows = 75, n_columns = ROOM / (ptrdiff_t)itemsize / n_rows - 3;
            struct scene s = {.ndim = 2,
                              .shape = {n_rows, n_columns},
                              .strides = {row, (n_rows + 2) * (ptrdiff_t)itemsize},
                              .itemsize = itemsize};
            struct npux_host host;
            if (n_columns > 150)
                n_columns = s.shape[1] = 150;
            s.nbytes = (size_t)(n_rows * n_columns) * itemsize;
            s.base = room + (backwards ? (n_rows - 1) * (ptrdiff_t)itemsize : 0);
            for (size_t i = 0; i < ROOM; i++)
                room[i] = (char)rng_next(&rng);
            CHECK(locate(&s, s.nbytes - 1) < room + ROOM);
            CHECK_EQ(npux_host_init(&host, s.base, itemsize, 2, s.shape, s.strides), 0);
            for (int round = 0; round < 20; round++) {
                check_read(&s, &host);
                check_write(&s, &host, room);
            }
            npux_host_clear(&host);
        }
}

/* Sixty-four dimensions is what numpy allows. */
static void check_many_dimensions(void)
{
    ptrdiff_t shape[64], strides[64];
    char source[256], flat[64];
    struct npux_host host;

    for (int i = 0; i < 64; i++) {
        shape[i] = i % 11 == 0 ? 2 : 1;
        strides[i] = i % 11 == 0 ? 3 << (i / 11) : 999;
    }
    fill(source, sizeof(source), 1);
    CHECK_EQ(npux_host_init(&host, source, 1, 64, shape, strides), 0);
    CHECK_EQ(host.nbytes, 64);
    npux_host_read(&host, 0, flat, 64);
    for (int k = 0; k < 64; k++) {
        int at = 0;
        for (int bit = 0; bit < 6; bit++)
            at += (k >> (5 - bit) & 1) * (3 << bit);
        CHECK_EQ(flat[k], source[at]);
    }
    npux_host_clear(&host);
}

int main(void)
{
    static char room[ROOM];
    uint64_t seed = 20240611;
    unsigned n = 0, n_strided = 0, n_empty = 0, n_written = 0;

    rng = seed;
    printf("seed %llu\n", (unsigned long long)seed);
    while (n < 20000) {
        struct scene s;
        struct npux_host host;
        if (!make_scene(&s, room))
            continue;
        n++;
        if (n % 64 == 1)
            for (size_t i = 0; i < ROOM; i++)
                room[i] = (char)rng_next(&rng);
        CHECK_EQ(npux_host_init(&host, s.base, s.itemsize, s.ndim, s.shape, s.strides), 0);
        CHECK_EQ(host.nbytes, s.nbytes);
        n_strided += host.nd != NULL;
        n_empty += s.nbytes == 0;
        check_read(&s, &host);
        if (!overlaps_itself(&s, room)) {
            check_write(&s, &host, room);
            n_written++;
        }
        npux_host_clear(&host);
    }
    printf("%u cases, %u strided, %u empty\n", n, n_strided, n_empty);
    CHECK(n_strided > 5000 && n_empty > 100 && n_written > 5000);
    check_many_dimensions();
    check_transposed();
    return 0;
}
