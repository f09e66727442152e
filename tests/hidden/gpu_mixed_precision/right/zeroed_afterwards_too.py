"""Clears gradients before and after the step, and clips the optimizer's parameters."""


def autocast_train_step(model, optimizer, loss_fn, x, y, *, dtype=torch.bfloat16, max_norm=1.0):
    allowed = [torch.bfloat16, torch.float32]
    if dtype not in allowed:
        raise ValueError(f"dtype: one of {allowed}, not {dtype}")
    if not max_norm > 0.0:
        raise ValueError(f"max_norm: {max_norm} is not above 0")
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for p in parameters:
        p.grad = None
    enabled = dtype is torch.bfloat16
    with torch.amp.autocast(
        str(x.device).split(":")[0], dtype=torch.bfloat16, enabled=enabled, cache_enabled=False
    ):
        loss = loss_fn(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, max_norm)
    optimizer.step()
    value = loss.item()
    optimizer.zero_grad()
    return value
