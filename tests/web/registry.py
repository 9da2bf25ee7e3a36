"""The checks of a part: each with its name, its server, and the forms in which it runs."""

from dataclasses import dataclass
from typing import Callable

from web.forms import SCRIPT


@dataclass(frozen=True)
class Check:
    """A check. `made` takes a visit to the server `on`, or that place if it needs no browser. It returns what it found."""

    name: str
    on: str
    forms: tuple
    made: Callable


class Part:
    """The checks of a part, in the order in which they are written."""

    def __init__(self):
        self.checks = []

    def check(self, name, forms=SCRIPT, on="still"):
        """Adds the decorated function."""
        def add(made):
            self.checks.append(Check(name, on, tuple(forms), made))
            return made
        return add


PAGES, LOOKS, ATTACKS = Part(), Part(), Part()
