"""After a resume the steps are counted from 0 again.

hint: the checkpoint holds how far the run had got
"""


def _start(model, optimizer, config):
    torch.manual_seed(config.seed)
    if config.checkpoint_path is None or not os.path.exists(config.checkpoint_path):
        return 0
    checkpoint = torch.load(config.checkpoint_path, map_location="cpu", weights_only=True)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    torch.set_rng_state(checkpoint["rng"])
    for gpu, state in zip(_gpus(config), checkpoint["gpu_rng"], strict=True):
        torch.cuda.set_rng_state(state, gpu)
    return 0
