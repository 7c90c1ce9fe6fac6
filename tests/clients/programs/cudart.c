/* Takes memory of a device through CUDA's runtime library in every way that has no type of its own, and says what it was told. The declarations are those of
   cuda_runtime_api.h, the same in 10.2 and 13; sizes are in MiB. Its argument is how much to take at once: twice that is more than the quota. */
#include <stdio.h>
#include <stdlib.h>

struct channels { int x, y, z, w, kind; };
int cudaFree(void *), cudaFreeArray(void *), cudaMalloc(void **, size_t), cudaMallocManaged(void **, size_t, unsigned);
int cudaMallocArray(void **, const struct channels *, size_t, size_t, unsigned), cudaMallocPitch(void **, size_t *, size_t, size_t);
int cudaDeviceReset(void), cudaGetDeviceProperties(void *, int), cudaMemGetInfo(size_t *, size_t *), cudaMemset(void *, int, size_t);
int cudaMemcpy(void *, const void *, size_t, int);
const char *cudaGetErrorString(int);

static size_t mib;

static int linear(void **at) { return cudaMalloc(at, mib << 20); }
static int managed(void **at) { return cudaMallocManaged(at, mib << 20, 1); }
static int pitched(void **at) { size_t pitch; return cudaMallocPitch(at, &pitch, 1 << 20, mib); }
static int array(void **at) {
    struct channels one = {32, 0, 0, 0, 0};
    return cudaMallocArray(at, &one, 16384, mib << 4, 0);
}

static size_t left(void) {
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    return free >> 20;
}

int main(int count, char **words) {
    static struct { const char *name; int (*take)(void **), (*give)(void *); } ways[] = {
        {"linear", linear, cudaFree}, {"managed", managed, cudaFree}, {"pitched", pitched, cudaFree}, {"array", array, cudaFreeArray}};
    union { char all[8192]; size_t words[64]; } properties;
    size_t free = 0, total = 0;
    char text[8] = "";
    void *first, *second;
    int error;
    mib = count > 1 ? strtoul(words[1], NULL, 10) : 0;
    if ((error = cudaGetDeviceProperties(&properties, 0))) {
        printf("%d %s\n", error, cudaGetErrorString(error));
        return 0;
    }
    error = cudaMemGetInfo(&free, &total);
    /* totalGlobalMem follows name, uuid, luid and its mask. */
    printf("%d: %zu, %zu\n", error, properties.words[36] >> 20, total >> 20);
    for (int way = 0; way < 4; way++) {
        size_t before = left(), during;
        error = ways[way].take(&first);
        printf("%s: %s, ", ways[way].name, cudaGetErrorString(error));
        error = ways[way].take(&second);
        during = left();
        if (!error) error = ways[way].give(second) ? 999 : 0;
        printf("%s, %zu taken, ", cudaGetErrorString(error), before - during);
        error = ways[way].give(first);
        if (!error) error = ways[way].take(&first);
        printf("%s, ", cudaGetErrorString(error));
        error = ways[way].give(first);
        printf("%s, %zu taken\n", cudaGetErrorString(error), before - left());
    }
    error = cudaMalloc(&first, mib << 20);
    if (!error) error = cudaMemset(first, 'x', 3);
    if (!error) error = cudaMemcpy(text, first, 3, 2);
    printf("%s, %s, ", cudaGetErrorString(error), text);
    error = cudaDeviceReset();
    printf("%s, ", cudaGetErrorString(error));
    error = cudaMalloc(&first, mib << 20);
    printf("%s\n", cudaGetErrorString(error));
    return 0;
}
