"""What the first parameter's state takes is multiplied by the number of parameters."""


def optimizer_state_bytes(optimizer):
    states = list(optimizer.state.values())
    if not states:
        return 0
    return len(states) * sum(
        x.nbytes for x in states[0].values() if isinstance(x, Tensor) and x.numel() > 1
    )
