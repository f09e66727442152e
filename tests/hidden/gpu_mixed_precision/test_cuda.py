"""gpu_mixed_precision on a real GPU: the CPU's tests, unchanged."""

from tests.hidden.gpu_mixed_precision.test_hidden import (  # noqa: F401
    test_backward_is_outside_of_autocast,
    test_float16_is_refused,
    test_forward_runs_in_the_dtype,
    test_gradients_from_before_do_not_count,
    test_loss_is_not_scaled,
    test_norm_of_all_gradients_is_clipped,
    test_small_steps_are_not_lost,
    test_step_is_that_of_the_gradients,
)
