"""The simulated machine: this machine with one simulated GPU in /dev, NVML, CUDA and torch.

bubblewrap shows the machine in a mount namespace of its own, in which

- /dev has the device files of an NVIDIA GPU, which are other devices;
- torch/version.py names a version of CUDA, as in a build for CUDA;
- tests/probes has one more file, simulated_cuda.py, which makes kit.gpu_stand_in the CUDA device;
- libcuda and libnvidia-ml are driver.c.

Nothing is written outside of a temporary folder.
"""

import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parent.parent
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
DEVICES = {
    "nvidia-uvm-tools": "null",
    "nvidiactl": "zero",
    "nvidia-uvm": "full",
    "nvidia0": "urandom",
}
VERSION = "13.0"


def command(words: list[str], folder: Path) -> list[str]:
    """The command line that runs a command on the simulated machine.

    Args:
        words: The command.
        folder: An empty folder for the driver and for what else is made for that machine.
    """
    bubblewrap = shutil.which("bwrap")
    torch = importlib.util.find_spec("torch")
    if not bubblewrap or not torch or not torch.origin:
        sys.exit(f"simulated.py: {'torch' if bubblewrap else 'bubblewrap'} is not installed")
    _build_driver(folder)
    version = Path(torch.origin).with_name("version.py")
    text = version.read_text().replace("cuda: Optional[str] = None", f"cuda = {VERSION!r}")
    (folder / "version.py").write_text(text)
    folder.chmod(0o755)  # an ordinary user may run something there
    probes = TREE / "tests" / "probes"
    shown = [*sorted(probes.glob("*.py")), HERE / "simulated_cuda.py"]
    files = [("--ro-bind", str(path), str(probes / path.name)) for path in shown]
    devices = [("--dev-bind", _node(folder, name), f"/dev/{name}") for name in DEVICES]
    libraries = (str(folder), os.environ.get("LD_LIBRARY_PATH"))
    return [
        bubblewrap,
        *("--bind", "/", "/", "--dev", "/dev", "--cap-add", "ALL"),
        *("--ro-bind", str(folder / "version.py"), str(version)),
        *("--tmpfs", str(probes)),
        *(word for bind in [*devices, *files] for word in bind),
        *("--setenv", "SIMULATED_MACHINE", "1"),
        *("--setenv", "LD_LIBRARY_PATH", os.pathsep.join(filter(None, libraries))),
        *("--setenv", "PYTHONDONTWRITEBYTECODE", "1"),
        *("--die-with-parent", "--"),
        *words,
    ]


def _build_driver(folder: Path) -> None:
    """Put the simulated driver's libraries into a folder."""
    compiler = shutil.which("cc")
    if not compiler:
        sys.exit("simulated.py: there is no C compiler")
    first, *others = (folder / name for name in LIBRARIES)
    line = [compiler, "-shared", "-fPIC", "-o", str(first), str(HERE / "driver.c")]
    subprocess.run(line, check=True)
    for other in others:
        shutil.copy(first, other)


def _node(folder: Path, name: str) -> str:
    """The device to show under a name: a node of its own, so that no other machine shares its lock.

    Where nodes cannot be made or opened, it is this machine's node.
    """
    shared = Path("/dev", DEVICES[name])
    try:
        os.mknod(folder / name, stat.S_IFCHR, shared.stat().st_rdev)
        (folder / name).chmod(0o666)
        (folder / name).open("rb").close()
    except OSError:
        return str(shared)
    return str(folder / name)


def main() -> int:
    """Run a command on the simulated machine: simulated.py COMMAND …"""
    with tempfile.TemporaryDirectory(prefix="simulated-") as folder:
        return subprocess.run(command(sys.argv[1:], Path(folder))).returncode


if __name__ == "__main__":
    sys.exit(main())
