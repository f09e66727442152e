/* A simulated NVIDIA driver: the calls of libnvidia-ml.so.1 and libcuda.so.1 that the grader makes.

   cc -shared -fPIC -o libnvidia-ml.so.1 driver.c

   There is one GPU. The layouts are those of nvml.h, as nvidia-ml-py declares them. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, OUT_OF_MEMORY = 2 };
static const char UUID[] = "GPU-51a71a7e-0000-0000-0000-000000000000";

static int text(const char *said, char *out, unsigned size)
{
    snprintf(out, size, "%s", said);
    return SUCCESS;
}

/* --- libnvidia-ml */

typedef void *Device;
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char address[32]; };

int nvmlInitWithFlags(unsigned flags) { return SUCCESS; }
int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { return text("999.99", out, size); }
int nvmlDeviceGetCount_v2(unsigned *out) { *out = 1; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *out)
{
    *out = (Device)UUID;
    return index ? NOT_FOUND : SUCCESS;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, Device *out)
{
    *out = (Device)UUID;
    return strcmp(uuid, UUID) ? NOT_FOUND : SUCCESS;
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
    out[0] = 80000000000ULL, out[2] = 500000000ULL, out[1] = out[0] - out[2];
    return SUCCESS;
}
int nvmlDeviceGetMigMode(Device device, unsigned *now, unsigned *pending) { return NOT_SUPPORTED; }
int nvmlDeviceSetPersistenceMode(Device device, int mode) { return NO_PERMISSION; }
const char *nvmlErrorString(int code) { return "Not Supported"; }

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
