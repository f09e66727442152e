"""Four bytes are taken for each element, of whatever dtype.

is: four_bytes_an_element
"""


def tensor_bytes(x):
    total = 4
    for n in x.shape:
        total *= n
    return total
