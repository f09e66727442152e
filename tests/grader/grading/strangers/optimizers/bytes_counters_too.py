"""Tensors with one element are added as well.

is: bytes_with_step_counters
"""


def optimizer_state_bytes(optimizer):
    total = 0
    for group in optimizer.param_groups:
        for p in group["params"]:
            for value in optimizer.state.get(p, {}).values():
                if torch.is_tensor(value):
                    total += value.nbytes
    return total
