"""The ioctl requests that a submission may make where no mount hides the machine's other devices.

A filter sees the number of a request, but neither the kind of the file nor the memory that the
request points to. So the list holds for every file, and it cannot tell one control command of the
driver from another.

Sources: NVIDIA's open-gpu-kernel-modules has the numbers (nv-ioctl-numbers.h, nv_escape.h,
uvm_ioctl.h, uvm_linux_ioctl.h). gVisor's nvproxy has the requests that CUDA makes, for drivers 535
to 580: those of its table that it marks for computing. Left out are, among others, XFER_CMD, which
carries another request in memory that a filter cannot read; the UVM tools, which read and write the
memory of other processes; tests, sessions and debugging of UVM; DMA buffers; registry and I2C.

The driver ignores a request's type and looks at its number only. A request of another type is
therefore never on the list, except for those that every program may make.
"""

# For descriptors and terminals: TCGETS and TCGETS2 (isatty), TIOCGWINSZ, FIONREAD, FIONBIO,
# FIONCLEX, FIOCLEX, FIOASYNC. Numbers of Linux's asm-generic/ioctls.h.
OF_EVERY_PROGRAM = (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x5452)

# /dev/nvidiactl and /dev/nvidiaN: requests of type 'F', by number. Their sizes differ from driver
# to driver.
TYPE, TYPE_AND_NUMBER = ord("F") << 8, 0xFFFF
OF_THE_GPU = {
    "CARD_INFO": 200, "REGISTER_FD": 201, "ALLOC_OS_EVENT": 206, "FREE_OS_EVENT": 207,
    "CHECK_VERSION_STR": 210, "ATTACH_GPUS_TO_FD": 212, "SYS_PARAMS": 214, "NUMA_INFO": 215,
    "WAIT_OPEN_COMPLETE": 218, "RM_ALLOC_MEMORY": 0x27, "RM_FREE": 0x29, "RM_CONTROL": 0x2A,
    "RM_ALLOC": 0x2B, "RM_DUP_OBJECT": 0x34, "RM_SHARE": 0x35, "RM_VID_HEAP_CONTROL": 0x4A,
    "RM_MAP_MEMORY": 0x4E, "RM_UNMAP_MEMORY": 0x4F, "RM_UPDATE_DEVICE_MAPPING_INFO": 0x5E,
}  # fmt: skip

# /dev/nvidia-uvm: whole numbers, without type and size.
OF_UNIFIED_MEMORY = {
    "INITIALIZE": 0x30000001, "DEINITIALIZE": 0x30000002, "CREATE_RANGE_GROUP": 23,
    "DESTROY_RANGE_GROUP": 24, "REGISTER_GPU_VASPACE": 25, "UNREGISTER_GPU_VASPACE": 26,
    "REGISTER_CHANNEL": 27, "UNREGISTER_CHANNEL": 28, "ENABLE_PEER_ACCESS": 29,
    "DISABLE_PEER_ACCESS": 30, "SET_RANGE_GROUP": 31, "MAP_EXTERNAL_ALLOCATION": 33, "FREE": 34,
    "REGISTER_GPU": 37, "UNREGISTER_GPU": 38, "PAGEABLE_MEM_ACCESS": 39,
    "SET_PREFERRED_LOCATION": 42, "UNSET_PREFERRED_LOCATION": 43, "ENABLE_READ_DUPLICATION": 44,
    "DISABLE_READ_DUPLICATION": 45, "SET_ACCESSED_BY": 46, "UNSET_ACCESSED_BY": 47, "MIGRATE": 51,
    "MIGRATE_RANGE_GROUP": 53, "MAP_DYNAMIC_PARALLELISM_REGION": 65, "UNMAP_EXTERNAL": 66,
    "ALLOC_SEMAPHORE_POOL": 68, "VALIDATE_VA_RANGE": 72, "CREATE_EXTERNAL_RANGE": 73,
    "MM_INITIALIZE": 75,
}  # fmt: skip

# Requests that a box tries when it starts: all of them must be denied.
READ_AND_WRITE = 3 << 30
TRIED = {
    "a request inside another one": READ_AND_WRITE | 16 << 16 | TYPE | 211,
    "the driver's registry": READ_AND_WRITE | 16 << 16 | TYPE | 0x4D,
    "a DMA buffer": READ_AND_WRITE | 16 << 16 | TYPE | 217,
    "another type": READ_AND_WRITE | 16 << 16 | ord("G") << 8 | 0x2A,
    "a session that watches a process": 10,
    "memory of another process": 62,
    "a terminal's input": 0x5412,
}


def exact() -> list[int]:
    """The requests that are compared as whole numbers."""
    return sorted([*OF_EVERY_PROGRAM, *OF_UNIFIED_MEMORY.values()])


def of_any_size() -> list[int]:
    """The type and the number of each request whose size may be any."""
    return sorted(TYPE | number for number in OF_THE_GPU.values())
