"""The outputs of the fixtures. Each is the same in every run."""

import io
import json

from PIL import Image
from PIL import ImageDraw

LOG_LINES = 6000
# Lines of the log by what they are.
SECTIONS = {1: "Compiling ledger v2.4.1", 2000: "Running 412 tests"}
ERRORS = {
    4410: "ERROR test payments::refund_twice failed: expected 1 refund, found 2",
    5990: "error: could not settle batch 7741: ledger is locked by pid 4431",
}
# Lines of the log that have this word, one in 500.
RARE, RARE_LINES = "checkpoint", [one for one in range(500, LOG_LINES + 1, 500) if one != 2000]
BIG_LINES = 100_000
LONG_LINE = 2_000_000
WORDS = "alpha bravo charlie delta echo foxtrot golf hotel india juliet"
IMAGE = (96, 48)


def log_line(number):
    """Returns a line of the log."""
    if number in SECTIONS:
        return f"==> {SECTIONS[number]}"
    if number in ERRORS:
        return ERRORS[number]
    rare = f" {RARE}" if number in RARE_LINES else ""
    return f"INFO step {number:05} worker-{number % 7} checked invoice {number * 7919 % 100_003}{rare}"


def log():
    return "".join(log_line(number) + "\n" for number in range(1, LOG_LINES + 1))


def big_line(number):
    return f"{number:07} INFO request {number * 7919 % 1_000_003} took {number % 977} ms"


def big():
    """Returns a log of many lines, some 4 MB."""
    return "".join(big_line(number) + "\n" for number in range(1, BIG_LINES + 1))


def issues(number=250):
    """Returns a reply of an interface on one line."""
    items = [{
        "id": one, "title": f"Issue {one}", "labels": ["bug", "ledger"] if one % 2 else [],
        "user": {"name": f"user-{one % 9}", "admin": one % 9 == 0}, "score": one / 4, "closed": None,
    } for one in range(number)]
    return json.dumps({"total": number, "items": items, "next": None})


def long_line():
    """Returns three lines, of which the second has two million characters."""
    numbered = " ".join(f"{WORDS} {number}" for number in range(LONG_LINE // 60))
    return f"before\n{numbered[:LONG_LINE]}\nafter\n"


# What a program paints on a terminal: colours, attributes, a line that is overwritten.
PAINTED = (
    r"printf '\033[31mred\033[0m \033[1;32mbold green\033[0m \033[4;38;5;21mblue\033[0m \033[7minverse\033[0m\n';"
    r"printf 'download 10%%\rdownload 55%%\rdownload 100%%\n';"
    r"printf '\033[1;31merror:\033[0m disk sdb1 is full\n'; exit 3"
)


def image():
    """Returns a PNG of a small plot."""
    picture = Image.new("RGB", IMAGE, "white")
    draw = ImageDraw.Draw(picture)
    draw.line([(4, 44), (28, 20), (52, 30), (92, 4)], fill="navy", width=2)
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def binary():
    """Returns bytes of every value that are no text."""
    return b"\x7fELF\x02\x01\x01\x00" + bytes(range(256)) * 64
