"""Runs only the model under autocast, sets gradients to None, and clips by hand."""

import contextlib


def autocast_train_step(model, optimizer, loss_fn, x, y, *, dtype=torch.bfloat16, max_norm=1.0):
    if dtype is torch.float16 or dtype not in {torch.bfloat16, torch.float32}:
        raise ValueError(f"dtype {dtype} is not supported")
    if not (max_norm > 0):
        raise ValueError("max_norm must be positive")
    with contextlib.ExitStack() as stack:
        kind = x.device.type
        if dtype is torch.bfloat16:
            stack.enter_context(torch.autocast(device_type=kind, dtype=dtype))
        elif torch.is_autocast_enabled(kind):
            stack.enter_context(torch.autocast(device_type=kind, enabled=False))
        predicted = model(x)
    loss = loss_fn(predicted, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    gradients = [
        p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None
    ]
    norm = torch.stack([g.square().sum() for g in gradients]).sum().sqrt()
    if norm > max_norm:
        for g in gradients:
            g.mul_(max_norm / (norm + 1e-6))
    optimizer.step()
    return float(loss.detach())
