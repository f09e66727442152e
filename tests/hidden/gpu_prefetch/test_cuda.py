"""gpu_prefetch on a real GPU: the stand-in's tests, unchanged."""

from tests.hidden.gpu_prefetch.test_hidden import (  # noqa: F401
    test_copies_are_pinned_and_beside_the_kernels,
    test_current_stream_is_asked_for_each_time,
    test_depth_is_how_far_it_draws_ahead,
    test_ends_as_its_iterator_ends,
    test_iterator_may_reuse_its_tensors,
    test_kernels_wait_for_the_copy,
    test_memory_is_not_reused_too_early,
    test_order_and_contents,
    test_other_devices,
    test_python_does_not_wait,
)
