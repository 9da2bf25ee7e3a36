"""What stands on a page: texts of cells, numbers as they are written, rows in their order."""

import re

from hosts.report import Failed

NUMBER = re.compile(r"-?\d[\d,.\u2009\u202f ]*")
UNITS = {"": 1, "B": 1, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9}
# How far a rounded number may be from what it stands for: units may be powers of 1,024, and cut.
ROUGH = 0.11


def same(what, found, wanted):
    if found != wanted:
        raise Failed(f"{what}: {found!r}, not {wanted!r}"[:1000])


def has(what, text, *parts):
    for part in parts:
        if str(part) not in text:
            raise Failed(f"{what}: no {part!r} in {text[:700]!r}")


def number_in(text):
    """Returns the first number of a text, with its unit."""
    match = NUMBER.search(text.replace("\u2212", "-"))
    if not match:
        raise Failed(f"no number in {text!r}")
    digits = re.sub(r"[^\d.-]", "", match.group()).rstrip(".")
    unit = text[match.end():].strip()[:1]
    return float(digits) * UNITS.get(unit if unit in UNITS else "", 1)


def says(what, text, number):
    """Fails unless a text says this number, exactly or rounded with a unit."""
    found = number_in(text)
    if abs(found - number) > max(ROUGH * abs(number), 0.5) and f"{number:,}" not in text:
        raise Failed(f"{what}: {text.strip()!r} for {number:,}")


async def texts(locator):
    """Returns the texts of elements, with single spaces."""
    return [" ".join(text.split()) for text in await locator.all_inner_texts()]


async def attributes(locator, name):
    return await locator.evaluate_all("(all, name) => all.map(one => one.getAttribute(name))", name)


async def is_in_window(locator):
    """Returns whether an element stands in the window, at least in part, and in what scrolls around it."""
    return await locator.evaluate("""one => {
        const inside = (a, b) => a.bottom > b.top && a.top < b.bottom && a.right > b.left && a.left < b.right;
        const box = one.getBoundingClientRect();
        for (let around = one.parentElement; around; around = around.parentElement) {
            const style = getComputedStyle(around);
            if (/auto|scroll|hidden|clip/.test(style.overflowY + style.overflowX) &&
                around !== document.body && around !== document.documentElement &&
                !inside(box, around.getBoundingClientRect())) return false;
        }
        return box.height > 0 && inside(box, {top: 0, left: 0, bottom: innerHeight, right: innerWidth});
    }""")
