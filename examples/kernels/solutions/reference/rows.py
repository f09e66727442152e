"""Chapter 1: a kernel in C++."""


def softmax_source() -> str:
    """Return the C++ source of the softmax of each row of a matrix.

    It defines `extern "C" void softmax(const float* x, float* out, long rows, long columns)`. Both
    matrices are stored row by row. Scores may be large: exp(1000) overflows every float, but the
    result must still be right.

    Example:
        The softmax of the row (0, 0) is (1/2, 1/2).

    Handout §1.1 · `python -m assignment check softmax`
    """
    # BEGIN SOLUTION(softmax)
    return """
#include <algorithm>
#include <cmath>

extern "C" void softmax(const float* x, float* out, long rows, long columns) {
    for (long i = 0; i < rows; i++, x += columns, out += columns) {
        float largest = *std::max_element(x, x + columns);
        double sum = 0;
        for (long j = 0; j < columns; j++) sum += out[j] = std::exp(x[j] - largest);
        for (long j = 0; j < columns; j++) out[j] /= sum;
    }
}
"""
    # END SOLUTION
