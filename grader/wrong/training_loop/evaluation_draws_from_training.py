"""Batches of training and of evaluation are drawn from torch's global generator.

hint: training must go on as if there had been no evaluation
"""


def _batch(tokens, config, stream, number):
    starts = torch.randint(len(tokens) - config.context_length, (config.batch_size, 1)).numpy()
    windows = tokens[starts + np.arange(config.context_length + 1)]
    windows = torch.from_numpy(windows.astype(np.int64)).to(config.device)
    return windows[:, :-1], windows[:, 1:]


def _evaluate(model, tokens, config):
    was_training = model.training
    model.eval()
    with torch.no_grad():
        batches = [_batch(tokens, config, VALIDATION, i) for i in range(config.eval_batches)]
        losses = [_loss(model, x, y, config).item() for x, y in batches]
    model.train(was_training)
    return sum(losses) / len(losses)
