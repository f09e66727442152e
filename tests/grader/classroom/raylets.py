"""A Ray cluster on this machine, made of real raylets, each of which Ray sees as a node."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RAY = Path(sys.executable).with_name("ray")
READY = "This command will now block"


class Raylets:
    """A head node without CPUs, and the nodes added to it."""

    def __init__(self):
        # A socket's path may have at most 107 characters, and pytest's folders are longer.
        self.folder = Path(tempfile.mkdtemp(prefix="ray"))
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_failure_threshold": "3",
        }
        self.nodes = {}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._start(
            "head",
            *("--head", f"--port={self.port}", "--include-dashboard=false", "--num-cpus=0"),
            f"--temp-dir={self.folder / 'session'}",
        )

    def add(self, name, *, cpus=1, gpus=0, environment=None, before=()):
        """Start a node and wait for it; `before` is put in front of its command line."""
        options = (f"--address={self.address}", f"--num-cpus={cpus}", f"--num-gpus={gpus}")
        self._start(name, *options, before=before, more=environment)

    def _start(self, name, *options, before=(), more=None):
        """Start a node; try again if Ray gives up, for example because ports collide."""
        for _ in range(3):
            log = self.folder / f"{name}.txt"
            with log.open("w") as file:
                words = ["start", "--block", "--disable-usage-stats", f"--node-name={name}"]
                words += ["--object-store-memory=80000000", *options]
                self.nodes[name] = subprocess.Popen(
                    [*map(str, before), RAY, *words],
                    env={**self.environment, **(more or {})},
                    start_new_session=True,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                )
            deadline = time.monotonic() + 600
            while self.nodes[name].poll() is None and time.monotonic() < deadline:
                if READY in log.read_text():
                    return
                time.sleep(0.05)
            self.kill(name)
        raise RuntimeError(log.read_text())

    def kill(self, name):
        process = self.nodes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self):
        for name in list(self.nodes):
            self.kill(name)
        shutil.rmtree(self.folder, ignore_errors=True)
