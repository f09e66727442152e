"""The GPU's random state is not in the checkpoint.

hint: torch.cuda.get_rng_state
device: cuda
"""


def _save(model, optimizer, steps_done, config):
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "steps_done": steps_done,
        "rng": torch.get_rng_state(),
        "gpu_rng": [],
    }
    temporary = f"{config.checkpoint_path}.tmp"
    with open(temporary, "wb") as file:
        torch.save(checkpoint, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, config.checkpoint_path)


def _start(model, optimizer, config):
    torch.manual_seed(config.seed)
    if config.checkpoint_path is None or not os.path.exists(config.checkpoint_path):
        return 0
    checkpoint = torch.load(config.checkpoint_path, map_location="cpu", weights_only=True)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    torch.set_rng_state(checkpoint["rng"])
    for gpu, state in zip(_gpus(config), checkpoint["gpu_rng"], strict=False):
        torch.cuda.set_rng_state(state, gpu)
    return checkpoint["steps_done"]
