"""On screens of four widths, no formula, code, table or picture is cut off on any page.

Code and tables that are too wide for a phone are in a box that scrolls, shows that it does, and can
be reached with the keyboard. Formulas never scroll. From 1,000 pixels on, nothing has to scroll.
"""

import pytest

from tests.handout.test_site import PAGES
from tests.handout.visiting import WIDTHS, cut_off, measured

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_off(visited, name):
    """Folded answers are unfolded, and each page is measured at three widths."""
    assert visited(name).cut == {}


@pytest.mark.proof
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_off_at_any_width(page, address, name):
    """The light and the dark page, at the other widths."""
    page.goto(address(name))
    layouts = [(width, scheme) for scheme in ("light", "dark") for width in WIDTHS]
    assert cut_off(page, [layout for layout in layouts if layout not in measured(name)]) == {}
