"""Screenshots of five pages: the dark ones beside the light ones, and both beside those of docs/web.

With $UPDATE_DOCS, those of docs/web are made anew.
"""

import asyncio
import io
import os
import pathlib

from hosts.report import Failed
from PIL import Image
from PIL import ImageChops
from PIL import ImageStat

from web import addresses, fixtures
from web.checks.looks import settled
from web.forms import Form
from web.registry import LOOKS

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs/web"
SIZE = (1200, 760)
LIGHT, DARK = (Form(*SIZE, scheme) for scheme in ("light", "dark"))
VIEWS = {
    "conversations": "/",
    "conversation": addresses.conversation(fixtures.MAIN),
    "output": addresses.output(fixtures.MAIN, fixtures.LOG, line=4404) + "#L4410",
    "json": addresses.output(fixtures.MAIN, fixtures.ISSUES, view="json", json=".items[3].user"),
    "saved": "/saved",
}
# Colours of a screenshot in docs/web, and the bytes that it may have.
COLOURS, BYTES = 160, 100_000
# The lightness of the ground, of 255: at most that of a dark page, and at least that of a light one.
DARKEST, LIGHTEST = 60, 220
# How far the elements of a page may stand apart in both schemes, in pixels.
APART = 1.5
# A screenshot is compared with that of docs/web on a raster: fonts and times differ from machine to machine.
RASTER, DIFFERENCE = (24, 15), 24
BOXES = """() => [...document.body.querySelectorAll('*')].filter(one => one.checkVisibility() && !one.closest('time, svg'))
    .map(one => one.getBoundingClientRect()).map(box => [box.x, box.y, box.width, box.height])"""


def add(name, path):
    # In a store of their own: others read theirs, which counts.
    @LOOKS.check(f"screenshots: {name}, dark beside light, and as in docs/web", (LIGHT,), on="pictured")
    async def compare(visit):
        light, boxes = await taken(visit, path)
        async with visit.looking.visit(DARK, visit.server) as other:
            dark, dark_boxes = await taken(other, path)
            other.end()
        grounds(light, dark)
        stands_alike(boxes, dark_boxes)
        sizes = [await asyncio.to_thread(beside_docs, f"{name}-{scheme}.png", picture)
                 for scheme, picture in (("light", light), ("dark", dark))]
        return f"{sizes[0]:,} and {sizes[1]:,} bytes"


for one in VIEWS.items():
    add(*one)


async def taken(visit, path):
    await visit.open(path)
    await settled(visit)
    # After any key, the page stays where the reader scrolls it.
    await visit.page.keyboard.press("Shift")
    await visit.page.evaluate("scrollTo(0, 0)")
    picture = Image.open(io.BytesIO(await visit.page.screenshot(animations="disabled", caret="hide")))
    return picture.convert("RGB"), await visit.page.evaluate(BOXES)


def grounds(light, dark):
    """The most frequent colour of each picture is light, and dark."""
    found = [max(picture.convert("L").getcolors(256))[1] for picture in (light, dark)]
    if found[0] < LIGHTEST or found[1] > DARKEST:
        raise Failed(f"lightness of the ground: {found[0]} light, {found[1]} dark")


def stands_alike(boxes, others):
    """All elements stand where they stand in the other scheme."""
    apart = [(one, other) for one, other in zip(boxes, others)
             if any(abs(a - b) > APART for a, b in zip(one, other))]
    if len(boxes) != len(others) or apart:
        raise Failed(f"{len(boxes)} and {len(others)} elements, {len(apart)} stand apart: {apart[:2]}")


def beside_docs(name, picture):
    """Compares a screenshot with that of docs/web, or writes it there. Returns its bytes."""
    file = DOCS / name
    if os.environ.get("UPDATE_DOCS"):
        DOCS.mkdir(exist_ok=True)
        picture.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
    if not file.exists():
        raise Failed(f"no {file.name} in docs/web; UPDATE_DOCS=1 makes it")
    size = file.stat().st_size
    if size > BYTES:
        raise Failed(f"{file.name} has {size:,} bytes")
    kept = Image.open(file).convert("RGB")
    rasters = [one.convert("L").resize(RASTER, Image.Resampling.BOX) for one in (kept, picture)]
    apart = ImageStat.Stat(ImageChops.difference(*rasters)).extrema[0][1]
    if kept.size != picture.size or apart > DIFFERENCE:
        raise Failed(f"{file.name} no longer shows the page: {apart} of 255 apart; UPDATE_DOCS=1 makes it anew")
    return size
