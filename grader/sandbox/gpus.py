"""The GPU of `--device cuda`: choose it, describe it to a box, and read its memory use.

All of this is read through NVML, the driver's monitoring interface, which creates no CUDA context.
The grader's process holds the expected values, and none of them may reach a device that student
code uses. Therefore nothing here imports torch, and CUDA itself is started in a separate process
(cuda_driver.py).
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from grader.base.errors import GraderFault, SandboxUnavailable, UsageError

DEVICES = Path("/dev")
CAPABILITIES = Path("/proc/driver/nvidia/capabilities")
# Starting takes long if no process has the GPU open, because the driver then initialises it first,
# and on machines with many GPUs, because CUDA looks at each of them.
START_SECONDS = 120.0
# The files of /sys that CUDA reads. Some describe which memory is close to which CPU and to the
# GPU; without them, CUDA may fail or crash. The others show that the driver's modules are loaded;
# without them, CUDA tries to load the modules.
READ_BY_CUDA = (
    "/sys/devices/system/node",
    "/sys/devices/system/memory/block_size_bytes",
    "/sys/devices/system/memory/auto_online_blocks",
    "/sys/module/nvidia/initstate",
    "/sys/module/nvidia_uvm/initstate",
)
NUMA_NODE = "/sys/bus/pci/devices/{bus}/numa_node"


@dataclass(frozen=True)
class Gpu:
    """Plain facts about one GPU, or about one instance of a partitioned GPU (MIG)."""

    index: int  # its index, in the order of the PCI bus
    uuid: str  # the identifier that CUDA uses
    name: str  # the product's name
    driver: str  # the driver's version
    memory_bytes: int  # its total memory
    bus: str  # its address on the PCI bus
    # The device files that CUDA needs in order to use this GPU alone. The first is directly in
    # /dev, and the last belongs to no other GPU.
    nodes: tuple[Path, ...]
    # For each library of the driver, the name by which CUDA loads it, and its file.
    libraries: tuple[tuple[str, Path], ...]

    @property
    def label(self) -> str:
        """The GPU for people."""
        return f"GPU {self.index} ({self.name})"

    def environment(self, *, alone: bool) -> dict[str, str]:
        """Environment variables for CUDA and torch.

        Args:
            alone: Whether no other GPU's nodes are visible, so that this GPU is CUDA's device 0.
        """
        return {
            "CUDA_VISIBLE_DEVICES": "0" if alone else self.uuid,
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            # The cache would be written to the scratch folder, which is emptied after each test.
            "CUDA_CACHE_DISABLE": "1",
            # Makes the order of sums the same in every run.
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
            # With this, is_available() does not start CUDA, so that forked children still can.
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        }

    def require_open_nodes(self, *, to_others: bool) -> None:
        """Check that the user that submissions run as may open the nodes.

        Args:
            to_others: Check for a user who owns none of the nodes, instead of this process's user.

        Raises:
            SandboxUnavailable: That user may not; the message gives the fix.
        """
        if closed := " ".join(str(node) for node in self.nodes if not _opens(node, to_others)):
            fix = (
                f"chmod a+rw {closed}, and load the driver with NVreg_DeviceFileMode=0666 "
                "to make this permanent"
            )
            raise SandboxUnavailable(
                f"the user that submissions run as may not open {closed}: {fix}"
            )

    @property
    def files(self) -> tuple[str, ...]:
        """The files of /sys that CUDA reads; some may not exist."""
        return (*READ_BY_CUDA, NUMA_NODE.format(bus=self.bus))

    def used_bytes(self) -> int:
        """How much of the GPU's memory is in use by all processes together.

        Raises:
            GraderFault: The driver does not report this.
        """
        nvml = _nvml()
        with _faults_of(nvml):
            return int(nvml.nvmlDeviceGetMemoryInfo(_handle(self.uuid)).used)


def find() -> Gpu:
    """Find the GPU to grade on: the first GPU, or the one that CUDA_VISIBLE_DEVICES selects.

    Raises:
        UsageError: This machine has no GPU, or no software that could use it.
        GraderFault: The GPU does not work.
    """
    require_node(DEVICES)
    require_cuda(_version_file_of_torch())
    nvml = _nvml()
    with _faults_of(nvml):
        nvml.nvmlInit()
        devices = _devices(nvml)
        uuids = [nvml.nvmlDeviceGetUUID(device) for _, _, device in devices]
        number = chosen(
            os.environ.get("CUDA_VISIBLE_DEVICES"), [index for index, _, _ in devices], uuids
        )
        return _described(nvml, *devices[number])


@contextmanager
def opened() -> Iterator[Gpu]:
    """Find the GPU for submissions. Each submission waits for its turn there (gpu_turns.py).

    The open node keeps the driver from shutting the GPU down between two tests.

    Raises:
        UsageError: This machine has no GPU, or no software that could use it.
        GraderFault: The GPU does not work.
    """
    found = find()
    # This process holds the expected values and must never place any of them on the device.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with open(found.nodes[-1], "rb", buffering=0):
        yield found


def require_node(folder: Path) -> None:
    """Refuse a machine without an NVIDIA GPU, judging by its device files.

    Raises:
        UsageError: There is no GPU.
    """
    own = [path for path in folder.glob("nvidia*") if path.name.removeprefix("nvidia").isdigit()]
    if not own or not (folder / "nvidiactl").exists():
        hint = (
            "grade with --device cpu or, if there is a GPU, run nvidia-smi as root first, "
            "which creates its device files"
        )
        raise UsageError(f"--device cuda: no NVIDIA GPU was found in {folder}: {hint}")


def require_cuda(version_file: Path | None) -> None:
    """Refuse a torch that cannot use an NVIDIA GPU, without importing torch.

    Args:
        version_file: Torch's version.py; None if torch is not installed.

    Raises:
        UsageError: torch is not installed, or is built for CPUs or other GPUs.
    """
    if version_file is None:
        wrong = "not installed in the grader's environment"
    elif not re.search(r"^cuda\b.*= *['\"]", version_file.read_text(), re.MULTILINE):
        wrong = "a build without CUDA"
    else:
        return
    hint = "install a build for CUDA with pip (see the selector on pytorch.org)"
    raise UsageError(f"--device cuda: torch is {wrong}: {hint}")


def chosen(visible: str | None, indices: Sequence[int], uuids: Sequence[str]) -> int:
    """Choose one of the devices; return its position in the lists.

    Args:
        visible: CUDA_VISIBLE_DEVICES. Only its first entry counts: an index in the order of the PCI
            bus, or the beginning of a UUID.
        indices: For each device, the index of its physical GPU, which all instances of a
            partitioned GPU share.
        uuids: The UUID of each device.

    Raises:
        UsageError: CUDA_VISIBLE_DEVICES selects none of the devices, or there is no device.
    """
    if not uuids:
        raise UsageError("--device cuda: the driver lists no GPU that may be used here")
    if visible is None:
        return 0
    first = visible.split(",")[0].strip()
    for number, (index, uuid) in enumerate(zip(indices, uuids, strict=True)):
        if first == str(index) or (first.startswith(("GPU-", "MIG-")) and uuid.startswith(first)):
            return number
    raise UsageError(
        f"--device cuda: CUDA_VISIBLE_DEVICES is {visible!r}, "
        f"which names none of: {', '.join(uuids)}"
    )


def nodes_of(
    minor: int, capabilities: Sequence[int] = (), folder: Path = DEVICES
) -> tuple[Path, ...]:
    """The device files that CUDA opens for one GPU; the GPU's own file comes last.

    Device files of other GPUs and of the display are left out. `nvidia-uvm-tools` is included,
    because the driver makes sure that it exists before it uses `nvidia-uvm`.

    Args:
        minor: The GPU's minor number.
        capabilities: The minor numbers of the capabilities of an instance of a partitioned GPU.
        folder: The folder of device files, usually /dev.

    Raises:
        GraderFault: A node is missing; the message says how to create it.
    """
    nodes = [folder / "nvidiactl", folder / "nvidia-uvm", folder / f"nvidia{minor}"]
    nodes += [folder / "nvidia-caps" / f"nvidia-cap{number}" for number in capabilities]
    if missing := [str(node) for node in nodes if not node.is_char_device()]:
        raise GraderFault(
            f"the driver runs, but there is no {' and no '.join(missing)}: "
            "run `nvidia-modprobe -u -c 0` as root"
        )
    tools = folder / "nvidia-uvm-tools"
    return (*([tools] if tools.is_char_device() else []), *nodes)


def capability(access: Path) -> int:
    """The minor number of a capability's node, read from the capability's file in /proc.

    Raises:
        GraderFault: The file is not in the driver's format.
    """
    with suppress(OSError):
        if found := re.search(r"^DeviceFileMinor: *(\d+)$", access.read_text(), re.MULTILINE):
            return int(found[1])
    raise GraderFault(
        f"the GPU is partitioned, but {access} does not name the device file of its instance"
    )


def _described(nvml: Any, index: int, gpu: Any, device: Any) -> Gpu:
    """Describe one device of a GPU; this starts the GPU's driver."""
    minor, uuid = nvml.nvmlDeviceGetMinorNumber(gpu), nvml.nvmlDeviceGetUUID(device)
    libraries = _start_driver(uuid)
    bus = nvml.nvmlDeviceGetPciInfo(gpu)
    return Gpu(
        index=index,
        uuid=uuid,
        name=nvml.nvmlDeviceGetName(device),
        driver=nvml.nvmlSystemGetDriverVersion(),
        memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(device).total),
        bus=f"{bus.domain:04x}:{bus.bus:02x}:{bus.device:02x}.0",
        nodes=nodes_of(minor, [] if device is gpu else _capabilities(nvml, minor, device)),
        libraries=tuple(sorted(libraries.items())),
    )


def _devices(nvml: Any) -> list[tuple[int, Any, Any]]:
    """Every device that CUDA could use, as (index of its GPU, handle of its GPU, own handle).

    A partitioned GPU has several devices.
    """
    gpus = [
        (index, nvml.nvmlDeviceGetHandleByIndex(index))
        for index in range(nvml.nvmlDeviceGetCount())
    ]
    return [
        (index, gpu, device) for index, gpu in gpus for device in _instances(nvml, gpu) or [gpu]
    ]


def _instances(nvml: Any, gpu: Any) -> list[Any]:
    """The instances of a partitioned GPU; empty if the GPU is not partitioned."""
    found = []
    # The driver raises for a GPU that cannot be partitioned.
    with suppress(nvml.NVMLError):
        split, _ = nvml.nvmlDeviceGetMigMode(gpu)
        for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu) if split else 0):
            with suppress(nvml.NVMLError_NotFound):
                found.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, number))
    return found


def _capabilities(nvml: Any, minor: int, device: Any) -> list[int]:
    """The minor numbers of the nodes that permit the use of an instance of a partitioned GPU."""
    part = CAPABILITIES / f"gpu{minor}" / "mig" / f"gi{nvml.nvmlDeviceGetGpuInstanceId(device)}"
    return [
        capability(part / "access"),
        capability(part / f"ci{nvml.nvmlDeviceGetComputeInstanceId(device)}" / "access"),
    ]


def _start_driver(uuid: str) -> dict[str, Path]:
    """Start CUDA for one device in a separate process; return the driver's libraries."""
    command = [sys.executable, "-I", str(Path(__file__).parent / "cuda_driver.py")]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": uuid}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=START_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise GraderFault(f"the GPU's driver was not ready after {START_SECONDS:.0f} s") from None
    if done.returncode:
        raise GraderFault(
            f"a process that started the GPU's driver exited with code {done.returncode}: "
            f"{done.stderr[-500:]}"
        )
    said = json.loads(done.stdout)
    if said["error"]:
        raise GraderFault(
            f"CUDA does not start on this machine, not even outside a sandbox: {said['error']}"
        )
    return {name: Path(file) for name, file in said["libraries"].items()}


def _opens(node: Path, to_others: bool) -> bool:
    # a capability's node is only held open, so it need not be writable.
    wanted = os.R_OK if node.parent.name == "nvidia-caps" else os.R_OK | os.W_OK
    return node.stat().st_mode & wanted == wanted if to_others else os.access(node, wanted)


def _version_file_of_torch() -> Path | None:
    found = importlib.util.find_spec("torch")
    return Path(found.origin).parent / "version.py" if found and found.origin else None


@cache
def _handle(uuid: str) -> Any:
    """The driver's handle of a device, in this process."""
    nvml = _nvml()
    nvml.nvmlInit()
    return nvml.nvmlDeviceGetHandleByUUID(uuid)


def _nvml() -> Any:
    """The library that queries the driver."""
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError:
        raise UsageError(
            "--device cuda: the library nvidia-ml-py is not installed: pip install nvidia-ml-py"
        ) from None
    return pynvml


@contextmanager
def _faults_of(nvml: Any) -> Iterator[None]:
    """Turn driver errors into GraderFault: never the student's fault."""
    try:
        yield
    except nvml.NVMLError as e:
        hint = ""
        if getattr(e, "value", None) == nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            hint = ": the driver was updated while it was loaded, and the machine must be restarted"
        raise GraderFault(f"the GPU's driver does not answer (NVML): {e}{hint}") from None
