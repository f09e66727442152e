"""The handout's pictures, drawn with the reference's functions, so they follow its formulas.

Each function of these modules that takes nothing and returns a drawing is a picture.
"""

from handout.site.pictures import accounting, flights, prefetching, tensors, training
from handout.site.svg import Drawing

PICTURES = {
    name.replace("_", "-"): draw
    for module in (accounting, flights, prefetching, tensors, training)
    for name, draw in vars(module).items()
    if getattr(draw, "__annotations__", None) == {"return": Drawing}
}
