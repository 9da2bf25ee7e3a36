"""The lines of the report, and their count."""

import sys


class Failed(Exception):
    """What a check found is not what must be."""


class Cannot(Exception):
    """What a check is about, the host cannot do: the reason."""


class Report:
    """Prints a line for each check of a host."""

    def __init__(self):
        self.passed = self.failed = 0

    def ok(self, host, what, found=""):
        self.passed += 1
        say(f"ok {host}: {what}" + (f": {found}" if found else ""))

    def not_ok(self, host, what, why):
        self.failed += 1
        say(f"not ok {host}: {what}: {one_line(why)}")

    def cannot(self, host, what, why):
        say(f"cannot: {host}: {what} ({one_line(why)})")

    def end(self):
        say(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed or not self.passed else 0


def one_line(text):
    return " ".join(str(text).split())


def say(text):
    print(text)
    sys.stdout.flush()
