"""gpu_memory on a real GPU: the stand-in's tests, unchanged."""

from tests.hidden.gpu_memory.test_hidden import (  # noqa: F401
    test_any_name_of_the_device,
    test_earlier_peak_is_not_the_calls,
    test_fn_is_called_once_and_nothing_is_kept,
    test_garbage_is_gone_before,
    test_peak_and_rest_of_a_call,
    test_result_of_the_call_counts,
    test_wrong_calls,
)
