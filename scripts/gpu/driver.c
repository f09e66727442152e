/* A simulated NVIDIA driver: the calls of libnvidia-ml.so.1 and libcuda.so.1 that the grader makes.

   cc -shared -fPIC -o libnvidia-ml.so.1 driver.c

   There is one GPU. Its state is read from the file that SIMULATED_GPU names, at every call: lines of
   a name and a number, such as "used 1073741824". `lost 15` makes every call about the GPU fail with
   that code. What the file does not name has the value below.
   The layouts are those of nvml.h, as nvidia-ml-py declares them. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, OUT_OF_MEMORY = 2 };
static const char UUID[] = "GPU-51a71a7e-0000-0000-0000-000000000000";
static const struct { const char *name; long long value; } USUAL[] = {
    {"total", 80000000000LL}, {"used", 500000000LL}, {"lost", 0},
};

static long long state(const char *name)
{
    char found[64];
    long long value;
    const char *path = getenv("SIMULATED_GPU");
    FILE *file = path ? fopen(path, "r") : NULL;
    int is_there = 0;
    while (file && !is_there && fscanf(file, "%63s %lld", found, &value) == 2)
        is_there = !strcmp(found, name);
    if (file)
        fclose(file);
    for (size_t i = 0; !is_there && i < sizeof USUAL / sizeof *USUAL; i++)
        if (!strcmp(USUAL[i].name, name))
            return USUAL[i].value;
    return value;
}

static int text(const char *said, char *out, unsigned size)
{
    snprintf(out, size, "%s", said);
    return (int)state("lost");
}

/* --- libnvidia-ml */

typedef void *Device;
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char address[32]; };

int nvmlInitWithFlags(unsigned flags) { return SUCCESS; }
int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { text("999.99", out, size); return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *out) { *out = 1; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *out)
{
    *out = (Device)UUID;
    return index ? NOT_FOUND : SUCCESS;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, Device *out)
{
    *out = (Device)UUID;
    return strcmp(uuid, UUID) ? NOT_FOUND : (int)state("lost");
}
int nvmlDeviceGetUUID(Device device, char *out, unsigned size) { return text(UUID, out, size); }
int nvmlDeviceGetName(Device device, char *out, unsigned size) { return text("Simulated GPU", out, size); }
int nvmlDeviceGetMinorNumber(Device device, unsigned *out) { *out = 0; return SUCCESS; }
int nvmlDeviceGetPciInfo_v3(Device device, struct pci *out)
{
    memset(out, 0, sizeof *out);
    out->bus = 1;
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo(Device device, unsigned long long *out)
{
    out[0] = state("total"), out[2] = state("used"), out[1] = out[0] - out[2];
    return (int)state("lost");
}
int nvmlDeviceGetMigMode(Device device, unsigned *now, unsigned *pending) { return NOT_SUPPORTED; }
int nvmlDeviceSetPersistenceMode(Device device, int mode) { return NO_PERMISSION; }
const char *nvmlErrorString(int code) { return code == 15 ? "GPU is lost" : "Not Supported"; }

/* --- libcuda: memory of the GPU is memory of the process */

int cuInit(unsigned flags) { return SUCCESS; }
int cuGetErrorString(int code, const char **out) { *out = "simulated"; return SUCCESS; }
int cuMemAlloc_v2(unsigned long long *out, size_t size)
{
    void *memory = malloc(size);
    *out = (unsigned long long)memory;
    if (memory)
        memset(memory, 1, size);
    return memory ? SUCCESS : OUT_OF_MEMORY;
}
