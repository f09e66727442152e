"""Evaluations run in float32.

hint: the same autocast as training
"""


def _evaluate(model, tokens, config):
    was_training = model.training
    model.eval()
    with torch.no_grad(), torch.random.fork_rng(_gpus(config)):
        batches = [_batch(tokens, config, VALIDATION, i) for i in range(config.eval_batches)]
        losses = [F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item() for x, y in batches]
    model.train(was_training)
    return sum(losses) / len(losses)
