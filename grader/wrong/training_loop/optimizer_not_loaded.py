"""The optimizer starts anew after a resume.

hint: AdamW keeps averages and a count of steps
"""


def _start(model, optimizer, config):
    torch.manual_seed(config.seed)
    if config.checkpoint_path is None or not os.path.exists(config.checkpoint_path):
        return 0
    checkpoint = torch.load(config.checkpoint_path, map_location="cpu", weights_only=True)
    model.load_state_dict(checkpoint["model"])
    torch.set_rng_state(checkpoint["rng"])
    for gpu, state in zip(_gpus(config), checkpoint["gpu_rng"], strict=True):
        torch.cuda.set_rng_state(state, gpu)
    return checkpoint["steps_done"]
