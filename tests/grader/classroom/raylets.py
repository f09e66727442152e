"""A Ray cluster on this machine: real raylets, each a node of its own for Ray."""

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
    """A head without processors, and the nodes that are added to it."""

    def __init__(self):
        # A path of a socket has at most 107 characters, which pytest's folders exceed.
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

    def add(self, name, *, cpus=1, environment=None, before=()):
        """Start a node, and wait for it; `before` is what its command line begins with."""
        options = (f"--address={self.address}", f"--num-cpus={cpus}")
        self._start(name, *options, before=before, more=environment)

    def _start(self, name, *options, before=(), more=None):
        """Start a node; try again where Ray gives up, as it does when ports collide."""
        for _ in range(3):
            log = self.folder / f"{name}.txt"
            with log.open("w") as file:
                self.nodes[name] = subprocess.Popen(
                    [
                        *map(str, before),
                        *(RAY, "start", "--block", "--disable-usage-stats"),
                        *(f"--node-name={name}", "--object-store-memory=80000000", *options),
                    ],
                    env={**self.environment, **(more or {})},
                    start_new_session=True,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                )
            deadline = time.monotonic() + 60
            while self.nodes[name].poll() is None and time.monotonic() < deadline:
                if READY in log.read_text():
                    return
                time.sleep(0.05)
            self.kill(name)
        raise RuntimeError(log.read_text())

    def kill(self, name):
        """End a node as a power cut does."""
        process = self.nodes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self):
        """End all of it."""
        for name in list(self.nodes):
            self.kill(name)
        shutil.rmtree(self.folder, ignore_errors=True)
