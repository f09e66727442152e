"""Whether the first elements have one address decides about sharing.

is: address_of_first_element
"""


def shares_storage(a, b):
    left, right = (t.data_ptr() for t in (a, b))
    return left == right
