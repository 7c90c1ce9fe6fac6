/* Looks names up in one library and says where each address lies, for real_driver.rs. The library is loaded by its path, as a framework does it.
 *
 * lookups LIBRARY [INTERPOSER]; each line of standard input is a question, and gets one line: result, status, object, offset in the object.
 * The name "-" stands for the empty one. It calls nothing of the driver but the look-ups; these crash in the driver for NULL instead of a name or of an
 * address to write to, so there is nothing to compare. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*v1_t)(const char *, void **, int, unsigned long long);
typedef int (*v2_t)(const char *, void **, int, unsigned long long, unsigned *);

enum { UNTOUCHED = 8, NO_STATUS = 77 };

static void say(int result, unsigned status, void *address) {
    Dl_info info;
    if (address == NULL) {
        printf("%d %u null 0\n", result, status);
    } else if (address == (void *)UNTOUCHED) {
        printf("%d %u untouched 0\n", result, status);
    } else if (dladdr(address, &info) == 0) {
        printf("%d %u nowhere 0\n", result, status);
    } else {
        const char *name = strrchr(info.dli_fname, '/');
        size_t offset = (size_t)((char *)address - (char *)info.dli_fbase);
        printf("%d %u %s %zu\n", result, status, name ? name + 1 : info.dli_fname, offset);
    }
}

int main(int count, char **arguments) {
    if (count < 2) {
        return 1;
    }
    void *driver = dlopen(arguments[1], RTLD_NOW);
    void *ours = count > 2 ? dlopen(arguments[2], RTLD_NOW | RTLD_NOLOAD) : NULL;
    char line[256], verb[16], text[128];
    if (driver == NULL || (count > 2 && ours == NULL)) {
        fprintf(stderr, "not loaded: %s\n", dlerror());
        return 1;
    }
    v1_t v1 = (v1_t)dlsym(driver, "cuGetProcAddress");
    v2_t v2 = (v2_t)dlsym(driver, "cuGetProcAddress_v2"), own = NULL;
    if (v2 != NULL) {
        /* The second form, as it gives itself out. */
        v2("cuGetProcAddress", (void **)&own, 12000, 0, NULL);
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        int version = 0;
        unsigned long long flags = 0;
        unsigned status = NO_STATUS;
        void *address = (void *)UNTOUCHED;
        if (sscanf(line, "%15s %127s %d %llu", verb, text, &version, &flags) < 2) {
            return 2;
        }
        const char *name = strcmp(text, "-") == 0 ? "" : text;
        if (strcmp(verb, "dlsym") == 0) {
            say(0, NO_STATUS, dlsym(driver, name));
        } else if (strcmp(verb, "ours") == 0) {
            say(0, NO_STATUS, dlsym(ours, name));
        } else if (strcmp(verb, "v1") == 0) {
            int result = v1(name, &address, version, flags);
            say(result, status, address);
        } else if (strcmp(verb, "v2") == 0) {
            int result = v2(name, &address, version, flags, &status);
            say(result, status, address);
        } else if (strcmp(verb, "own") == 0) {
            int result = own(name, &address, version, flags, &status);
            say(result, status, address);
        } else if (strcmp(verb, "no_status") == 0) {
            int result = v2(name, &address, version, flags, NULL);
            say(result, status, address);
        } else {
            return 3;
        }
    }
    return 0;
}
