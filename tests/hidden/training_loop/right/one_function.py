"""One function; batches come from torch's global generator, and the log file stays open.

device: cpu
"""

import contextlib
import io


def train(model, optimizer, train_tokens, config, *, val_tokens=None):
    for name in ("steps", "warmup_steps", "eval_every", "checkpoint_every"):
        if getattr(config, name) < 0:
            raise ValueError(f"{name} is negative")
    for name in ("batch_size", "context_length", "eval_batches", "micro_batch_size"):
        if getattr(config, name) is not None and getattr(config, name) <= 0:
            raise ValueError(f"{name} has to be positive")
    if config.context_length >= len(train_tokens):
        raise ValueError("context_length is larger than the data")
    if config.max_grad_norm is not None and config.max_grad_norm < 0:
        raise ValueError("max_grad_norm is negative")
    if config.eval_every > 0 and (val_tokens is None or len(val_tokens) <= config.context_length):
        raise ValueError("val_tokens are needed for eval_every")
    if config.checkpoint_every > 0 and not config.checkpoint_path:
        raise ValueError("checkpoint_path is needed for checkpoint_every")

    device_type = "cuda" if "cuda" in config.device else "cpu"

    def autocast():
        if config.autocast_dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(device_type=device_type, dtype=config.autocast_dtype)

    def get_batch(data):
        ix = torch.randint(len(data) - config.context_length, (config.batch_size,))
        x = torch.stack(
            [torch.from_numpy(data[i : i + config.context_length].astype(np.int64)) for i in ix]
        )
        y = torch.stack(
            [
                torch.from_numpy(data[i + 1 : i + 1 + config.context_length].astype(np.int64))
                for i in ix
            ]
        )
        return x.to(config.device), y.to(config.device)

    start = 0
    torch.manual_seed(config.seed)
    if config.checkpoint_path and os.path.isfile(config.checkpoint_path):
        state = torch.load(config.checkpoint_path, weights_only=False)
        model.load_state_dict(state["model_state"])
        optimizer.load_state_dict(state["optimizer_state"])
        torch.set_rng_state(state["rng_state"])
        start = state["iter"]
    log = None
    if config.log_path:
        kept = []
        if start > 0 and os.path.exists(config.log_path):
            with open(config.log_path) as old:
                for text in old:
                    with contextlib.suppress(json.JSONDecodeError):
                        if json.loads(text)["step"] < start and text.endswith("\n"):
                            kept.append(text)
        log = open(config.log_path, "w")
        log.writelines(kept)
        log.flush()

    losses, lrs, norms, evals = [], [], [], {}
    model.train()
    for it in range(start, config.steps):
        if it < config.warmup_steps:
            lr = config.max_learning_rate * it / config.warmup_steps
        else:
            ratio = (it - config.warmup_steps) / (config.steps - config.warmup_steps)
            coeff = 0.5 * (1.0 + math.cos(math.pi * ratio))
            lr = config.min_learning_rate + coeff * (
                config.max_learning_rate - config.min_learning_rate
            )
        for group in optimizer.param_groups:
            group["lr"] = lr
        x, y = get_batch(train_tokens)
        micro = min(config.micro_batch_size or config.batch_size, config.batch_size)
        optimizer.zero_grad(set_to_none=False)
        step_loss = 0.0
        for i in range(0, config.batch_size, micro):
            xb, yb = x[i : i + micro], y[i : i + micro]
            with autocast():
                logits = model(xb)
                loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), yb.reshape(-1))
                loss = loss * xb.size(0) / config.batch_size
            step_loss += loss.item()
            if math.isnan(step_loss) or math.isinf(step_loss):
                if log:
                    log.close()
                raise FloatingPointError(f"step {it}: loss is {step_loss}")
            loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(
            model.parameters(),
            float("inf") if config.max_grad_norm is None else config.max_grad_norm,
        )
        optimizer.step()
        losses.append(step_loss)
        lrs.append(lr)
        norms.append(norm.item())
        if log:
            log.write(
                json.dumps(
                    {
                        "step": it,
                        "loss": step_loss,
                        "lr": lr,
                        "grad_norm": norm.item(),
                        "tokens": x.numel(),
                    }
                )
                + "\n"
            )
            log.flush()
        if config.eval_every and (it + 1) % config.eval_every == 0:
            state = torch.get_rng_state()
            torch.manual_seed(config.seed + 1)
            model.eval()
            with torch.no_grad():
                total = 0.0
                for _ in range(config.eval_batches):
                    x, y = get_batch(val_tokens)
                    for i in range(0, config.batch_size, micro):
                        xb, yb = x[i : i + micro], y[i : i + micro]
                        with autocast():
                            part = F.cross_entropy(model(xb).transpose(1, 2), yb)
                        total += part.item() * len(xb) / config.batch_size
            evals[it + 1] = total / config.eval_batches
            model.train()
            torch.set_rng_state(state)
        last = it + 1 == config.steps
        if config.checkpoint_path and (
            last or (config.checkpoint_every and (it + 1) % config.checkpoint_every == 0)
        ):
            buffer = io.BytesIO()
            torch.save(
                {
                    "model_state": model.state_dict(),
                    "optimizer_state": optimizer.state_dict(),
                    "rng_state": torch.get_rng_state(),
                    "iter": it + 1,
                },
                buffer,
            )
            with open(config.checkpoint_path + ".new", "wb") as f:
                f.write(buffer.getbuffer())
            os.rename(config.checkpoint_path + ".new", config.checkpoint_path)
    if log:
        log.close()
    return TrainResult(losses, lrs, norms, evals, start)
