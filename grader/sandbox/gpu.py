"""The GPU of `--device cuda`: which one it is, what a box needs of it, who may use it now, and what is taken of it.

All of this is read through NVML, the driver's interface for onlookers, which makes no CUDA context. The grader's process holds
the expected values, and none of them ever comes onto a device that a student's code uses: so nothing here imports torch, and
CUDA itself is started in a process of its own (driver.py).
"""

import ast
import fcntl
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from grader.errors import GraderFault, UsageError

DEVICES = Path("/dev")
CAPABILITIES = Path("/proc/driver/nvidia/capabilities")
START_SECONDS = 120.0  # a GPU that nobody holds open is started anew, and CUDA looks at each


@dataclass(frozen=True)
class Gpu:
    """One GPU, or one instance of a GPU that is split (MIG): plain facts, so that they can be handed to another process.

    Attributes:
        index: Its number, in the order of the PCI bus.
        uuid: Its name to CUDA.
        name: Its name to people.
        driver: The driver's version.
        memory_bytes: All of its memory.
        bus: Its address on the PCI bus.
        nodes: The device files that CUDA opens to use it and no other. The first lies in /dev itself, the last is its own.
        libraries: The driver's libraries: the name that CUDA asks for, and the file.
    """

    index: int
    uuid: str
    name: str
    driver: str
    memory_bytes: int
    bus: str
    nodes: tuple[Path, ...]
    libraries: tuple[tuple[str, Path], ...]

    def environment(self, *, alone: bool) -> dict[str, str]:
        """What CUDA and torch are told.

        Args:
            alone: Whether its nodes are the only ones there; then CUDA counts it as the first.
        """
        return {
            "CUDA_VISIBLE_DEVICES": "0" if alone else self.uuid,
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_CACHE_DISABLE": "1",  # it would be written to the scratch folder, which is emptied after each test
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # sums in an order that does not change from run to run
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # is_available() then starts no CUDA, and a fork after it can
        }

    @contextmanager
    def lock(self, say: Callable[[str], None]) -> Iterator[None]:
        """Have the GPU to oneself, among all graders that see its node; wait for it where another one has it.

        The lock goes with the process, however that ends. The open node also keeps the driver from stopping the GPU between two
        tests.

        Args:
            say: Told, once, that there is a wait.
        """
        node = os.open(self.nodes[-1], os.O_RDONLY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(node, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"waiting for GPU {self.index} ({self.name}): another grader has it")
                fcntl.flock(node, fcntl.LOCK_EX)
            yield
        finally:
            os.close(node)

    def closed_nodes(self, *, to_others: bool) -> list[Path]:
        """The nodes that cannot be opened by a user who owns nothing, or (not `to_others`) by this process's own."""
        return [node for node in self.nodes if not _opens(node, to_others)]

    def used_bytes(self) -> int:
        """How much of its memory is in use, by whomever.

        Raises:
            GraderFault: The driver does not say.
        """
        nvml = _nvml()
        with _faults_of(nvml):
            return int(nvml.nvmlDeviceGetMemoryInfo(_handle(self.uuid)).used)

    def busy(self) -> bool | None:
        """Whether it has lately been at work; None where the driver does not say."""
        nvml = _nvml()
        with suppress(nvml.NVMLError):
            return bool(nvml.nvmlDeviceGetUtilizationRates(_handle(self.uuid)).gpu)
        return None


def find() -> Gpu:
    """The GPU to grade on: the first that there is, or that CUDA_VISIBLE_DEVICES names.

    Raises:
        UsageError: This machine has none, or nothing that could use it.
        GraderFault: It has one that does not work.
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


def require_node(folder: Path) -> None:
    """Refuse a machine without a GPU of NVIDIA's, as far as its device files tell.

    Raises:
        UsageError: It has none.
    """
    own = [path for path in folder.glob("nvidia*") if path.name.removeprefix("nvidia").isdigit()]
    if not own or not (folder / "nvidiactl").exists():
        hint = "grade with --device cpu, or, if it has one, run nvidia-smi as root first, which makes its device files"
        raise UsageError(
            f"--device cuda: this machine has no NVIDIA GPU, as far as {folder} tells: {hint}"
        )


def require_cuda(version_file: Path | None) -> None:
    """Refuse a torch that cannot use a GPU, without importing it.

    Args:
        version_file: Its version.py; None where there is no torch.

    Raises:
        UsageError: There is none, or it is built for CPUs or other GPUs.
    """
    hint = "install a build for CUDA with pip (by the selector on pytorch.org)"
    if version_file is None:
        raise UsageError(f"--device cuda: torch is not installed beside the grader: {hint}")
    values = _constants(version_file)
    if not values.get("cuda"):
        raise UsageError(
            f"--device cuda: torch {values.get('__version__')} is a build without CUDA: {hint}"
        )


def chosen(visible: str | None, indices: Sequence[int], uuids: Sequence[str]) -> int:
    """Which of the devices to use.

    Args:
        visible: CUDA_VISIBLE_DEVICES, of which the first entry counts: an index in the order of the PCI bus, or how a UUID
            begins.
        indices: The number of each device's GPU; an instance of a split one has that GPU's.
        uuids: The UUID of each device.

    Raises:
        UsageError: It names none of them, or there is none.
    """
    if not uuids:
        raise UsageError("--device cuda: the driver knows no GPU that may be used here")
    if visible is None:
        return 0
    first = visible.split(",")[0].strip()
    for number, (index, uuid) in enumerate(zip(indices, uuids, strict=True)):
        if first == str(index) or (first.startswith(("GPU-", "MIG-")) and uuid.startswith(first)):
            return number
    raise UsageError(
        f"--device cuda: CUDA_VISIBLE_DEVICES is {visible!r}, which names none of: {', '.join(uuids)}"
    )


def nodes_of(
    minor: int, capabilities: Sequence[int] = (), folder: Path = DEVICES
) -> tuple[Path, ...]:
    """The device files that CUDA opens for one GPU, its own last: of no other GPU, and none of the display's.

    The driver makes sure of both nodes of its memory manager, `nvidia-uvm` and `nvidia-uvm-tools`, before it uses the first.

    Args:
        minor: The GPU's minor number.
        capabilities: Those of an instance of a split GPU.
        folder: /dev.

    Raises:
        GraderFault: One is missing; the text says what makes it.
    """
    nodes = [folder / "nvidiactl", folder / "nvidia-uvm", folder / f"nvidia{minor}"]
    nodes += [folder / "nvidia-caps" / f"nvidia-cap{number}" for number in capabilities]
    if missing := [str(node) for node in nodes if not node.is_char_device()]:
        raise GraderFault(
            f"the driver runs, but there is no {' and no '.join(missing)}: run `nvidia-modprobe -u -c 0` as root"
        )
    tools = folder / "nvidia-uvm-tools"
    return (*([tools] if tools.is_char_device() else []), *nodes)


def capability(access: Path) -> int:
    """The number of the node that stands for a capability, from its file in /proc.

    Raises:
        GraderFault: The file is not what the driver writes.
    """
    with suppress(OSError, ValueError):
        for line in access.read_text().splitlines():
            field, _, value = line.partition(":")
            if field == "DeviceFileMinor":
                return int(value)
    raise GraderFault(
        f"the GPU is split, and {access} does not name the device file of its instance"
    )


def _described(nvml: Any, index: int, gpu: Any, device: Any) -> Gpu:
    """All that is to be known of a device of a GPU; its driver is started for it."""
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
    """Every device that CUDA could use: the number of its GPU, that GPU's handle, and its own. A split GPU has several."""
    gpus = [
        (index, nvml.nvmlDeviceGetHandleByIndex(index))
        for index in range(nvml.nvmlDeviceGetCount())
    ]
    return [
        (index, gpu, device) for index, gpu in gpus for device in _instances(nvml, gpu) or [gpu]
    ]


def _instances(nvml: Any, gpu: Any) -> list[Any]:
    """The instances of a split GPU; none where it is whole."""
    found = []
    with suppress(nvml.NVMLError):  # which is how the driver says that this one cannot be
        split, _ = nvml.nvmlDeviceGetMigMode(gpu)
        for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu) if split else 0):
            with suppress(nvml.NVMLError_NotFound):
                found.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, number))
    return found


def _capabilities(nvml: Any, minor: int, device: Any) -> list[int]:
    """The numbers of the nodes that allow the use of an instance of a split GPU."""
    part = CAPABILITIES / f"gpu{minor}" / "mig" / f"gi{nvml.nvmlDeviceGetGpuInstanceId(device)}"
    return [
        capability(part / "access"),
        capability(part / f"ci{nvml.nvmlDeviceGetComputeInstanceId(device)}" / "access"),
    ]


def _start_driver(uuid: str) -> dict[str, Path]:
    """Start CUDA for one device, in a process of its own; the driver's libraries, as it found them.

    Raises:
        GraderFault: It does not start, with the driver's words.
    """
    command = [sys.executable, "-I", str(Path(__file__).parent / "driver.py")]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": uuid}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=START_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise GraderFault(f"the GPU's driver was not ready after {START_SECONDS:.0f} s") from None
    if done.returncode:
        raise GraderFault(
            f"a process that started the GPU's driver ended with code {done.returncode}: {done.stderr[-500:]}"
        )
    said = json.loads(done.stdout)
    if said["error"]:
        raise GraderFault(
            f"CUDA does not start on this machine, in a sandbox or out of it: {said['error']}"
        )
    return {name: Path(file) for name, file in said["libraries"].items()}


def _opens(node: Path, to_others: bool) -> bool:
    wanted = (
        os.R_OK if node.parent.name == "nvidia-caps" else os.R_OK | os.W_OK
    )  # a capability is only held
    return node.stat().st_mode & wanted == wanted if to_others else os.access(node, wanted)


def _version_file_of_torch() -> Path | None:
    found = importlib.util.find_spec("torch")
    return Path(found.origin).parent / "version.py" if found and found.origin else None


def _constants(file: Path) -> dict[str, Any]:
    """What a module of plain assignments sets, without running it."""
    found: dict[str, Any] = {}
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Constant):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {
                target.id: node.value.value for target in targets if isinstance(target, ast.Name)
            }
    return found


@cache
def _handle(uuid: str) -> Any:
    """The driver's handle of a device, in this process."""
    nvml = _nvml()
    nvml.nvmlInit()
    return nvml.nvmlDeviceGetHandleByUUID(uuid)


def _nvml() -> Any:
    """The library that reads the driver.

    Raises:
        UsageError: It is not installed.
    """
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError:
        raise UsageError(
            "--device cuda: the library nvidia-ml-py is not installed: pip install nvidia-ml-py"
        ) from None
    return pynvml


@contextmanager
def _faults_of(nvml: Any) -> Iterator[None]:
    """A driver that does not answer is no fault of whoever asked for it.

    Raises:
        GraderFault: With the driver's words, and what mends the usual one.
    """
    try:
        yield
    except nvml.NVMLError as e:
        mismatch = getattr(e, "value", None) == nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
        hint = (
            ": the driver was updated while it was loaded, and the machine has to be restarted"
            if mismatch
            else ""
        )
        raise GraderFault(f"the GPU's driver does not answer (NVML): {e}{hint}") from None
