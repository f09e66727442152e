"""A CUDA build of torch on a machine without a driver, as pip installs it on Linux."""

from types import SimpleNamespace

import pytest
import torch

from grader.solutions.reference import checkpointing
from tests.probes import checkpointing as probes


@pytest.mark.parametrize("probe", [probes.unfit, probes.damaged])
def test_no_optimizer_asks_the_driver_about_simulated_gpus(probe, monkeypatch):
    """There, an optimizer's step asks the driver whether a CUDA graph is captured."""

    def ask_the_driver(self):
        raise RuntimeError("CUDA driver version is insufficient for CUDA runtime version")

    asking = [name for name in probes.CHECKS_OF_GRAPHS if hasattr(torch.optim.Optimizer, name)]
    assert asking, "this version of torch has another name for it"
    for name in asking:
        monkeypatch.setattr(torch.optim.Optimizer, name, ask_the_driver)
    got = probe(SimpleNamespace(checkpointing=checkpointing))
    assert got
    assert all(ending["raised"] for ending in got.values())
