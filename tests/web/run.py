"""Runs the checks of some parts.

    PYTHONPATH=tests PYTHON -m web.run PROGRAM AXE SCRATCH ONLY PART...

PYTHON has the driver of the browser. SCRATCH is an empty directory. ONLY is a regular expression: the checks whose name or form it finds.
"""

import asyncio
import importlib
import pathlib
import re
import signal
import sys

from hosts.report import Failed, Report, one_line
from playwright.async_api import Error

from web import browser
from web.looking import Looking
from web.registry import ATTACKS, LOOKS, PAGES
from web.site import Site

PARTS = {"pages": PAGES, "looks": LOOKS, "attacks": ATTACKS}
MODULES = [
    "conversations",
    "conversation",
    "growing",
    "output",
    "windows",
    "searching",
    "following",
    "kinds",
    "addresses",
    "saved",
    "keys",
    "reading",
    "export",
    "looks",
    "screenshots",
    "access",
    "attack_page",
    "rebinding",
    "hostile",
    "only",
]
# Checks at a time: most of their time they wait for a page.
AT_A_TIME = 4
# Seconds for a check, whatever it waits for.
LONGEST = 120


async def main(program, axe, scratch, only, *parts):
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    report, scratch = Report(), pathlib.Path(scratch)
    site = Site(pathlib.Path(program), scratch)
    try:
        async with browser.opened() as chromium:
            report.ok("browser", "version", chromium.version)
            looking = Looking(site, chromium, pathlib.Path(axe).read_text(), scratch)
            await checked(chosen(parts, only), looking, report)
            if "figures" in parts:
                await importlib.import_module("web.figures").measure(looking)
    finally:
        try:
            await asyncio.to_thread(site.end)
        except Failed as error:
            report.not_ok("servers", "end", error)
    return report.end()


def chosen(parts, only):
    """Returns the checks with their forms."""
    for name in MODULES:
        importlib.import_module(f"web.checks.{name}")
    pairs = [(check, form) for part in parts if part in PARTS for check in PARTS[part].checks for form in check.forms]
    return [(check, form) for check, form in pairs if re.search(only, f"{form.name}: {check.name}")]


async def checked(pairs, looking, report):
    places = asyncio.Semaphore(AT_A_TIME)

    async def one(check, form):
        async with places:
            await made(check, form, looking, report)

    async with asyncio.TaskGroup() as tasks:
        for check, form in pairs:
            tasks.create_task(one(check, form))


async def made(check, form, looking, report):
    """Makes a check in a form. What goes wrong is a line of the report: others may still be made."""
    try:
        # The first to come makes it, which takes its time.
        place = await looking.place(check.on)
        async with asyncio.timeout(LONGEST):
            found = await looking.at(check, form, place)
    except TimeoutError:
        report.not_ok(form.name, check.name, f"not done within {LONGEST} s")
    except (Failed, AssertionError, Error, OSError) as error:
        report.not_ok(form.name, check.name, one_line(error)[:1200])
    except Exception as error:  # noqa: BLE001
        report.not_ok(form.name, check.name, f"{error!r}, {place_of(error)}")
    else:
        report.ok(form.name, check.name, found or "")


def place_of(error):
    trace = error.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    return f"{pathlib.Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(*sys.argv[1:])))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(130)
