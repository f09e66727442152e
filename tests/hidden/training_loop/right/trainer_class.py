"""A trainer class with a new generator per batch, seeded by seed and step, and float64 losses."""


class Trainer:
    def __init__(self, model, optimizer, tokens, config):
        self.model, self.optimizer, self.tokens, self.config = model, optimizer, tokens, config
        self.step = 0
        torch.manual_seed(config.seed)

    def batch(self, tokens, salt):
        generator = torch.Generator()
        generator.manual_seed(self.config.seed * 1_000_003 + salt)
        length = self.config.context_length
        starts = torch.randint(
            len(tokens) - length, [self.config.batch_size], generator=generator
        ).numpy()
        view = np.lib.stride_tricks.sliding_window_view(tokens, length + 1)
        both = torch.as_tensor(view[starts].astype(np.int64), device=self.config.device)
        return both[:, :length], both[:, 1:]

    def loss(self, x, y):
        kind = torch.device(self.config.device).type
        with torch.autocast(
            kind, dtype=self.config.autocast_dtype, enabled=bool(self.config.autocast_dtype)
        ):
            logits = self.model(x)
        return F.cross_entropy(logits.double().flatten(end_dim=-2), y.flatten())

    def advance(self):
        config = self.config
        self.optimizer.zero_grad()
        x, y = self.batch(self.tokens, self.step)
        size = config.micro_batch_size or config.batch_size
        weighted = []
        for i in reversed(range(0, config.batch_size, size)):
            loss = self.loss(x[i : i + size], y[i : i + size]) * len(x[i : i + size])
            (loss / config.batch_size).backward()
            weighted.append(loss.item())
        loss = (
            math.fsum(weighted) / config.batch_size
            if all(map(math.isfinite, weighted))
            else math.nan
        )
        if math.isnan(loss):
            raise FloatingPointError(f"no finite loss at step {self.step}")
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = math.sqrt(math.fsum(float(g.double().square().sum()) for g in gradients))
        scale = (
            1.0
            if config.max_grad_norm is None
            else min(1.0, config.max_grad_norm / max(norm, 1e-12))
        )
        for g in gradients:
            g.mul_(scale)
        lr = _learning_rate(self.step, config)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.step += 1
        return loss, lr, norm

    def random(self):
        return [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]

    def set_random(self, states):
        torch.set_rng_state(states[0])
        torch.cuda.set_rng_state_all(states[1:])

    def evaluate(self, tokens):
        before = self.random()
        self.model.eval()
        with torch.no_grad():
            size = self.config.micro_batch_size or self.config.batch_size
            losses = []
            for i in range(self.config.eval_batches):
                x, y = self.batch(tokens, 500_000 + i)
                parts = [(x[j : j + size], y[j : j + size]) for j in range(0, len(x), size)]
                losses.append(
                    sum(self.loss(*part).item() * len(part[0]) for part in parts) / len(x)
                )
        self.model.train()
        self.set_random(before)
        return float(np.mean(losses))

    def save(self):
        path = self.config.checkpoint_path
        state = [self.step, self.model.state_dict(), self.optimizer.state_dict(), self.random()]
        with open(path + f".{os.getpid()}", "wb") as file:
            torch.save(state, file)
        os.replace(path + f".{os.getpid()}", path)

    def load(self):
        path = self.config.checkpoint_path
        if path and os.path.exists(path):
            self.step, model, optimizer, rng = torch.load(path, weights_only=False)
            self.model.load_state_dict(model)
            self.optimizer.load_state_dict(optimizer)
            self.set_random(rng)


def train(model, optimizer, train_tokens, config, *, val_tokens=None):
    trainer = Trainer(model, optimizer, train_tokens, config)
    trainer.load()
    result = TrainResult([], [], [], {}, trainer.step)
    if config.log_path:
        _trim_log(config.log_path, trainer.step)
    model.train()
    while trainer.step < config.steps:
        record = trainer.advance()
        for name, value in zip(("losses", "learning_rates", "grad_norms"), record):
            getattr(result, name).append(value)
        if config.log_path:
            with open(config.log_path, "ab", buffering=0) as file:
                line = dict(zip(("step", "loss", "lr", "grad_norm"), (trainer.step - 1, *record)))
                file.write(json.dumps(line, indent=None, separators=(",", ":")).encode() + b"\n")
        due = config.checkpoint_every and trainer.step % config.checkpoint_every == 0
        if config.checkpoint_path and (due or trainer.step == config.steps):
            trainer.save()
        if config.eval_every and trainer.step % config.eval_every == 0:
            result.eval_losses[trainer.step] = trainer.evaluate(val_tokens)
    return result
