"""The handout's pictures, drawn with the reference's functions, so they follow its formulas."""

from handout.site.pictures import accounting, flights, prefetching, tensors, training

PICTURES = {
    "one-step": accounting.one_step,
    "layer": tensors.layer,
    "strides": tensors.strides,
    "number-formats": tensors.number_formats,
    "heads": tensors.heads,
    "two-layer-flops": accounting.two_layer_flops,
    "roofline": accounting.roofline,
    "training-memory": accounting.training_memory,
    "gradients": training.gradients,
    "signal": training.signal,
    "bowl": training.bowl,
    "learning-rate": training.learning_rate,
    "life-of-a-batch": training.life_of_a_batch,
    "rename": training.rename,
    "step-memory": training.step_memory,
    "segments": training.segments,
    "checkpointing": training.checkpointing,
    "prefetching": prefetching.prefetching,
    "flights": flights.flights,
}
