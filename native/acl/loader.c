/* loader.c - see loader.h.
 *
 * Threads: see loader.h. Locks: none. Owns: the one table of symbols, which is constant.
 * Invariant: see loader.h.
 */
#include "acl/loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MUST NPUX_MUST
#define MAY NPUX_MAY
const struct npux_symbol npux_symbols[] = {
#define ACL_FN(result, name, need, since, parameters) \
    {#name, since, #result, #parameters, need, offsetof(struct npux_acl, name)},
#include "acl/symbols.def"
#undef ACL_FN
};
#undef MUST
#undef MAY
const size_t npux_n_symbols = sizeof(npux_symbols) / sizeof(npux_symbols[0]);

/* The simulator has every symbol, and says which of them the release that it simulates lacks. */
typedef int (*has_function)(const char *name);

static void *resolve(void *handle, has_function has, const char *name)
{
    void *address = dlsym(handle, name);

    return address != NULL && has != NULL && has(name) == 0 ? NULL : address;
}

int npux_acl_load(struct npux_acl_lib *lib, const char *path, struct npux_err *err)
{
    has_function has = NULL;
    void *symbol;
    char missing[256] = "";
    size_t used = 0;
    int n_missing = 0;

    memset(lib, 0, sizeof(*lib));
    if (snprintf(lib->path, sizeof(lib->path), "%s", path) >= (int)sizeof(lib->path))
        return npux_fail(err, -ENAMETOOLONG, "dlopen", "library path is longer than %zu bytes",
                         sizeof(lib->path) - 1);
    lib->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (lib->handle == NULL) {
        const char *why = dlerror();
        return npux_fail(err, -ENOENT, "dlopen", "%s", why != NULL ? why : "no reason given");
    }
    symbol = dlsym(lib->handle, "aclsim_has_function");
    memcpy(&has, &symbol, sizeof(has));
    for (size_t i = 0; i < npux_n_symbols; i++) {
        void *address = resolve(lib->handle, has, npux_symbols[i].name);
        memcpy((char *)&lib->fn + npux_symbols[i].slot, &address, sizeof(address));
        if (address != NULL || npux_symbols[i].need == NPUX_MAY)
            continue;
        n_missing++;
        if (used < sizeof(missing))
            used += (size_t)snprintf(missing + used, sizeof(missing) - used, " %s", npux_symbols[i].name);
    }
    if (n_missing != 0) {
        npux_acl_unload(lib);
        return npux_fail(err, -ENOSYS, "dlsym", "%s lacks %d required ACL function(s):%s", path, n_missing,
                         missing);
    }
    return 0;
}

void npux_acl_unload(struct npux_acl_lib *lib)
{
    if (lib->handle != NULL)
        dlclose(lib->handle);
    memset(&lib->fn, 0, sizeof(lib->fn));
    lib->handle = NULL;
}
