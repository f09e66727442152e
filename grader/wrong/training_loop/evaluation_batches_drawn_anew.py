"""Every evaluation uses other batches.

hint: losses can be compared when the batches are the same
"""

import itertools

calls = itertools.count()


def _evaluate(model, tokens, config):
    was_training = model.training
    model.eval()
    with torch.no_grad(), torch.random.fork_rng(_gpus(config)):
        batches = [_batch(tokens, config, VALIDATION, next(calls)) for i in range(config.eval_batches)]
        losses = [_loss(model, x, y, config).item() for x, y in batches]
    model.train(was_training)
    return sum(losses) / len(losses)
