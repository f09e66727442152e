"""Only what is called exp_avg or exp_avg_sq is counted.

hint: other optimizers use other names
"""


def optimizer_state_bytes(optimizer):
    return sum(
        x.numel() * x.element_size()
        for state in optimizer.state.values()
        for name, x in state.items()
        if name in ("exp_avg", "exp_avg_sq") and x.numel() > 1
    )
