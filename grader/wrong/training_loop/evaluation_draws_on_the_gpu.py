"""Evaluation puts the CPU's random state back, and not the GPU's.

hint: torch.random.fork_rng takes the GPUs as well
device: cuda
"""


def _evaluate(model, tokens, config):
    was_training = model.training
    model.eval()
    with torch.no_grad(), torch.random.fork_rng([]):
        batches = [_batch(tokens, config, VALIDATION, i) for i in range(config.eval_batches)]
        losses = [_loss(model, x, y, config).item() for x, y in batches]
    model.train(was_training)
    return sum(losses) / len(losses)
