"""What fn saves is moved to the CPU's memory instead of being computed again.

hint: nothing inside fn is kept, anywhere
price: nothing is computed again, and that is what a checkpoint is
"""


def checkpoint(fn, *inputs):
    with torch.autograd.graph.save_on_cpu():
        return fn(*inputs)
