"""A loss that is no number ends the run with a RuntimeError."""


def windows(tokens, config, *key):
    generator = np.random.default_rng([config.seed, *key])
    begins = generator.integers(0, len(tokens) - config.context_length, size=config.batch_size)
    rows = np.stack([tokens[b : b + config.context_length + 1] for b in begins]).astype(np.int64)
    rows = torch.from_numpy(rows).to(config.device)
    return rows[:, :-1], rows[:, 1:]


def nats(model, x, y, config):
    kind = torch.device(config.device).type
    with torch.autocast(
        kind, dtype=config.autocast_dtype, enabled=config.autocast_dtype is not None
    ):
        logits = model(x)
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))


def rate(s, config):
    if s < config.warmup_steps:
        return config.max_learning_rate * s / config.warmup_steps
    t = (s - config.warmup_steps) / (config.steps - config.warmup_steps)
    height = 0.5 * (1 + math.cos(math.pi * t))
    return config.min_learning_rate + height * (config.max_learning_rate - config.min_learning_rate)


def validate(model, tokens, config):
    state = torch.get_rng_state()
    model.eval()
    total = 0.0
    with torch.no_grad():
        for i in range(config.eval_batches):
            x, y = windows(tokens, config, 2, i)
            total += nats(model, x, y, config).item()
    model.train()
    torch.set_rng_state(state)
    return total / config.eval_batches


def cut(path, start):
    size = 0
    if os.path.exists(path):
        with open(path, "rb") as f:
            for line in f:
                if line[-1:] != b"\n" or json.loads(line)["step"] >= start:
                    break
                size += len(line)
        os.truncate(path, size)


def train(model, optimizer, train_tokens, config, *, val_tokens=None):
    if len(train_tokens) <= config.context_length:
        raise ValueError("too few train_tokens")
    if config.eval_every and (val_tokens is None or len(val_tokens) <= config.context_length):
        raise ValueError("too few val_tokens")
    if config.checkpoint_every and not config.checkpoint_path:
        raise ValueError("where to? checkpoint_path is missing")
    start = 0
    torch.manual_seed(config.seed)
    if config.checkpoint_path and os.path.exists(config.checkpoint_path):
        saved = torch.load(config.checkpoint_path, map_location="cpu", weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["state"])
        start = saved["done"]
    if config.log_path:
        cut(config.log_path, start)
    losses, rates, norms, evals = [], [], [], {}
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    limit = float("inf") if config.max_grad_norm is None else config.max_grad_norm
    size = config.micro_batch_size or config.batch_size
    model.train()
    for s in range(start, config.steps):
        x, y = windows(train_tokens, config, 1, s)
        optimizer.zero_grad()
        loss = 0.0
        for i in range(0, len(x), size):
            xs, ys = x[i : i + size], y[i : i + size]
            part = nats(model, xs, ys, config) * len(xs) / len(x)
            part.backward()
            loss += part.item()
        if not math.isfinite(loss):
            raise RuntimeError(f"step {s} has the loss {loss}")
        norm = torch.nn.utils.clip_grad_norm_(weights, limit).item()
        for group in optimizer.param_groups:
            group["lr"] = rate(s, config)
        optimizer.step()
        losses.append(loss)
        rates.append(rate(s, config))
        norms.append(norm)
        if config.log_path:
            with open(config.log_path, "a") as f:
                print(
                    json.dumps({"step": s, "loss": loss, "lr": rates[-1], "grad_norm": norm}),
                    file=f,
                )
        if config.eval_every and (s + 1) % config.eval_every == 0:
            evals[s + 1] = validate(model, val_tokens, config)
        due = s + 1 == config.steps or (
            config.checkpoint_every and (s + 1) % config.checkpoint_every == 0
        )
        if config.checkpoint_path and due:
            everything = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "state": torch.get_rng_state(),
                "done": s + 1,
            }
            torch.save(everything, config.checkpoint_path + ".part")
            os.replace(config.checkpoint_path + ".part", config.checkpoint_path)
    return TrainResult(losses, rates, norms, evals, start)
