"""The model stays in eval mode after an evaluation.

hint: model.train() before the next step
"""


def _evaluate(model, tokens, config):
    was_training = model.training
    model.eval()
    with torch.no_grad(), torch.random.fork_rng(_gpus(config)):
        batches = [_batch(tokens, config, VALIDATION, i) for i in range(config.eval_batches)]
        losses = [_loss(model, x, y, config).item() for x, y in batches]
    return sum(losses) / len(losses)
