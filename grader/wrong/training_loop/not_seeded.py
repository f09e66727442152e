"""Dropout draws from whatever state the generator is in.

hint: torch.manual_seed(config.seed) at the start of a fresh run
"""


def _start(model, optimizer, config):
    if config.checkpoint_path is None or not os.path.exists(config.checkpoint_path):
        return 0
    checkpoint = torch.load(config.checkpoint_path, map_location="cpu", weights_only=True)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    torch.set_rng_state(checkpoint["rng"])
    for gpu, state in zip(_gpus(config), checkpoint["gpu_rng"], strict=True):
        torch.cuda.set_rng_state(state, gpu)
    return checkpoint["steps_done"]
