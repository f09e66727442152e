"""Gradients are part of the checkpoint, and those of the model are replaced by them."""


def take_generators():
    kind, words, place, waiting, number = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "gpus": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": (kind, words.tolist(), place, waiting, number),
        "python": random.getstate(),
    }


def set_generators(taken):
    torch.set_rng_state(taken["torch"])
    for i, state in enumerate(taken["gpus"]):
        if i < torch.cuda.device_count():
            torch.cuda.set_rng_state(state, i)
    np.random.set_state(taken["numpy"])
    random.setstate(taken["python"])


def save_checkpoint(model, optimizer, iteration, out):
    everything = {
        "weights": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": iteration,
        "gradients": [p.grad for p in model.parameters()],
        "generators": take_generators(),
    }
    if hasattr(out, "write"):
        torch.save(everything, out)
        return
    target = os.fspath(out)
    part = target + ".part"
    try:
        with open(part, "wb") as f:
            torch.save(everything, f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(part, target)
    except BaseException:
        if os.path.exists(part):
            os.remove(part)
        raise


def load_checkpoint(src, model, optimizer):
    loaded = torch.load(src, map_location="cpu", weights_only=True)
    old_weights = copy.deepcopy(model.state_dict())
    old_optimizer = copy.deepcopy(optimizer.state_dict())
    old_generators = take_generators()
    try:
        model.load_state_dict(loaded["weights"])
        optimizer.load_state_dict(loaded["optimizer"])
        set_generators(loaded["generators"])
        for p, g in zip(model.parameters(), loaded["gradients"]):
            p.grad = g
        return loaded["step"]
    except BaseException:
        model.load_state_dict(old_weights)
        optimizer.load_state_dict(old_optimizer)
        set_generators(old_generators)
        raise
