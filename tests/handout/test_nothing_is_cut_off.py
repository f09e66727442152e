"""On screens of four widths, no formula, code, table or picture is cut off on any page.

Code and tables that are too wide for a phone are in a box that scrolls, shows that it does, and can
be reached with the keyboard. Formulas never scroll. From 1,000 pixels on, nothing has to scroll.
"""

import pytest

from tests.handout.test_site import PAGES

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_off(visited, name):
    """Folded answers are unfolded, and the light and the dark page are measured at each width."""
    assert visited(name).cut == {}
