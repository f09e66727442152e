# Right solutions of gpu_mixed_precision in other styles; see grader/solutions/fragments.py.

# [a_scaler_that_is_off] Uses a GradScaler that is never enabled, model.zero_grad, and a loss under
# autocast.
def autocast_train_step(model, optimizer, loss_fn, x, y, *, dtype=torch.bfloat16, max_norm=1.0):
    if dtype != torch.bfloat16 and dtype != torch.float32:
        raise ValueError(f"dtype has to be bfloat16 or float32 and is {dtype}")
    if max_norm != max_norm or max_norm <= 0:
        raise ValueError(f"max_norm has to be above 0 and is {max_norm}")
    scaler = torch.amp.GradScaler(x.device.type, enabled=dtype == torch.float16)
    model.zero_grad()
    with torch.autocast(x.device.type, torch.bfloat16, enabled=dtype is torch.bfloat16):
        prediction = model(x)
        loss = loss_fn(prediction, y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach().item()


# [decorated_by_hand] Runs only the model under autocast, sets gradients to None, and clips by hand.
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
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([g.square().sum() for g in gradients]).sum().sqrt()
    if norm > max_norm:
        for g in gradients:
            g.mul_(max_norm / (norm + 1e-6))
    optimizer.step()
    return float(loss.detach())


# [in_a_closure] Runs the whole step in a closure that the optimizer calls.
def autocast_train_step(model, optimizer, loss_fn, x, y, *, dtype=torch.bfloat16, max_norm=1.0):
    if dtype not in (torch.bfloat16, torch.float32):
        raise ValueError(f"dtype: {dtype}")
    if not max_norm > 0:
        raise ValueError(f"max_norm: {max_norm}")

    def closure():
        optimizer.zero_grad()
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=dtype is torch.bfloat16):
            loss = loss_fn(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        return loss

    return optimizer.step(closure).item()
