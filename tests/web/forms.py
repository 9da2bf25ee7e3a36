"""The forms in which a person looks at a page."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """A window, a colour scheme, and whether scripts run."""

    width: int
    height: int
    scheme: str = "light"
    script: bool = True

    @property
    def name(self):
        return f"{self.width}x{self.height} {self.scheme}" + ("" if self.script else ", no script")


SMALL, LARGE, HUGE = (360, 640), (1600, 1000), (3840, 2160)
SCHEMES = ("light", "dark")


# What a page does is tried in both sizes, both schemes, with the script and without, but not in all their pairs:
# a page has one script and one structure for all. How it looks is tried in all of them.
SCRIPT = (Form(*SMALL, "light"), Form(*LARGE, "dark"))
PLAIN = (Form(*SMALL, "dark", script=False), Form(*LARGE, "light", script=False))
BOTH = SCRIPT + PLAIN
EACH = tuple(Form(*size, scheme, script) for size in (SMALL, LARGE) for scheme in SCHEMES for script in (True, False))
# For what does not depend on it.
ONE = Form(*LARGE)
ALONE = (ONE,)
