"""linear on a GPU: layers that are created there and compute there."""

import pytest
import torch

from kit import expect
from tests.hidden.linear.test_hidden import layer_weights
from tests.probes import on_a_device as probes


@pytest.mark.harm("crash")
def test_layers_on_a_gpu(student, rng, device):
    """Layers made with device= are on that device, initialised as on a CPU, and compute x Wᵀ."""
    for kind, args, dims in [
        ("Linear", [300, 200], [300, 200]),
        ("MLP", [[60, 200, 30]], [60, 200, 30]),
    ]:
        x = torch.randn(7, dims[0], generator=rng, dtype=torch.float64)
        given = {"kind": kind, "args": args, "x": x, "dtype": torch.float64}
        got = student.run(probes.layer, device=device, **given)
        name = "the devices of its output and weights"
        hint = "pass device= to the parameters"
        expect.value(sorted(set(got["devices"])), [device], of=kind, name=name, hint=hint)
        output, *weights = got["tensors"]
        expected = x
        for i, weight in enumerate(layer_weights(weights, dims, of=kind, dtype=torch.float64)):
            expected = (expected.relu() if i else expected) @ weight.T
            std, limit = weight.shape[1] ** -0.5, 3 * weight.shape[1] ** -0.5
            # 0.9866 for a normal distribution truncated at 3 std; the bounds allow 8 standard
            # deviations for 1,800 numbers.
            spread = float(weight.std()) / std
            reason = "wrong spread of the weights"
            expect.that(0.84 < spread < 1.13, reason, of=kind, hint="std is 1/√in_features")
            reason = "a weight beyond 3 std"
            expect.that(float(weight.abs().max()) <= limit * (1 + 1e-6), reason, of=kind)
        expect.tensor(output, expected, of=kind, rtol=1e-10, atol=1e-10, name="the output")
