"""Saves a torch.Generator's state, draws validation batches once, and clips by hand.

device: cpu
"""


def _draw(tokens, config, generator):
    starts = torch.randint(
        0, len(tokens) - config.context_length, (config.batch_size,), generator=generator
    ).tolist()
    rows = np.stack([np.asarray(tokens[s : s + config.context_length + 1]) for s in starts]).astype(
        "int64"
    )
    rows = torch.tensor(rows, device=config.device)
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def _nats(model, x, y, config):
    """The cross-entropy, summed over all tokens."""
    kind = torch.device(config.device).type
    with torch.autocast(
        kind,
        dtype=config.autocast_dtype or torch.bfloat16,
        enabled=config.autocast_dtype is not None,
    ):
        log_p = model(x).float().log_softmax(dim=-1)
        return -log_p.gather(-1, y.unsqueeze(-1)).sum()


def _mean_and_gradients(model, x, y, config):
    for p in model.parameters():
        p.grad = None
    pieces = -(-len(x) // (config.micro_batch_size or len(x)))
    total = 0.0
    for xs, ys in zip(torch.tensor_split(x, pieces), torch.tensor_split(y, pieces)):
        nats = _nats(model, xs, ys, config)
        (nats / y.numel()).backward()
        total += nats.detach().double()
    return float(total / y.numel())


def _clip_by_hand(model, limit):
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    if limit is not None and norm > limit:
        for g in gradients:
            g *= limit / norm
    return float(norm)


def train(model, optimizer, train_tokens, config, *, val_tokens=None):
    torch.manual_seed(config.seed)
    generator = torch.Generator().manual_seed(config.seed + 12345)
    validation = []
    if config.eval_every:
        own = torch.Generator().manual_seed(config.seed)
        validation = [_draw(val_tokens, config, own) for _ in range(config.eval_batches)]
    first = 0
    if config.checkpoint_path and os.path.exists(config.checkpoint_path):
        saved = torch.load(config.checkpoint_path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["global"])
        generator.set_state(saved["generator"])
        first = saved["step"]
    if config.log_path:
        _trim_log(config.log_path, first)
    result = TrainResult([], [], [], {}, first)
    for step in range(first, config.steps):
        model.train()
        x, y = _draw(train_tokens, config, generator)
        loss = _mean_and_gradients(model, x, y, config)
        if not np.isfinite(loss):
            raise FloatingPointError(f"loss {loss} in step {step}")
        norm = _clip_by_hand(model, config.max_grad_norm)
        lr = _learning_rate(step, config)
        for group in optimizer.param_groups:
            group.update(lr=lr)
        optimizer.step()
        optimizer.zero_grad()
        for values, value in [
            (result.losses, loss),
            (result.learning_rates, lr),
            (result.grad_norms, norm),
        ]:
            values.append(value)
        if config.log_path:
            with open(config.log_path, "a") as file:
                print(
                    json.dumps({"grad_norm": norm, "lr": lr, "loss": loss, "step": step}), file=file
                )
        n = step + 1
        if config.checkpoint_path and (
            n == config.steps or (config.checkpoint_every and n % config.checkpoint_every == 0)
        ):
            saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": n}
            saved |= {"global": torch.get_rng_state(), "generator": generator.get_state()}
            torch.save(saved, config.checkpoint_path + "~")
            os.replace(config.checkpoint_path + "~", config.checkpoint_path)
        if config.eval_every and n % config.eval_every == 0:
            model.eval()
            with torch.random.fork_rng(), torch.inference_mode():
                rows = config.micro_batch_size or config.batch_size
                nats = sum(
                    float(_nats(model, x_part, y_part, config))
                    for x, y in validation
                    for x_part, y_part in zip(x.split(rows), y.split(rows))
                )
            model.train()
            result.eval_losses[n] = nats / sum(y.numel() for _, y in validation)
    return result
