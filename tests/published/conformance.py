"""The public conformance suite: its verdict on a server, on the gateway in front of that server, and on the gateway as
a client, with its logins."""

import contextlib
import json
import os
import pathlib
import random
import re
import sys
from concurrent.futures import ThreadPoolExecutor

from hosts.report import Failed

from published.servers import Server
from published.ways import Way, client, free_port, opened, running, wait_for

HERE = pathlib.Path(__file__).resolve().parent / "conformance"
SERVER = HERE / "server.mjs"
PACKAGE = "@modelcontextprotocol/conformance"
# The revisions whose requirements are run, in this order.
REVISIONS = ("2026-07-28", "2025-11-25")
# The orders in which one gateway is asked each scenario of both revisions by itself.
ORDERS = ("backward", "shuffled 1", "shuffled 2", "shuffled 3")
# Seconds for all scenarios of a revision.
SECONDS = 200
# The least scenarios that a revision requires.
LEAST = 30
# Scenarios for clients that the gateway does not pass: it sends no headers with parameters.
CLIENT_FAILS = {"http-custom-headers", "http-invalid-tool-headers"}


def run(program, packages, scratch, report, short):
    """Compares the verdicts on a server by itself and behind the gateway, which one process is for all scenarios."""
    run_clients(program, packages, scratch, report)
    with contextlib.ExitStack() as stack:
        port = free_port()
        server = ["node", SERVER, packages.npm, str(port)]
        env = {"PATH": os.environ["PATH"]}
        stack.enter_context(running([str(word) for word in server], env, scratch / "conformance.log"))
        wait_for(port)
        url = f"http://127.0.0.1:{port}/mcp"
        alone = verdicts(url, packages, scratch / "alone")
        for revision, found in alone.items():
            if len(found) < LEAST or any(found.values()):
                raise Failed(f"the verdict on the server alone for {revision}: {found}")
            report.ok("conformance", f"the server alone, {revision}", f"{len(found)} scenarios")
        over_stdio = ["node", SERVER, packages.npm, "stdio"]
        places = [("over stdio", over_stdio, False), ("over HTTP", [url], False), ("of a file", over_stdio, True)]
        for number, (what, argv, file) in enumerate(places):
            place = scratch / f"conformance-{number}"
            way = Way("gateway over HTTP", place / "stores", http=True, file=file)
            with opened(way, Server("server", argv, []), program, place) as reach:
                through = verdicts(reach["url"], packages, place / "results")
                compare(f"a server {what}", alone, through, report)
                if what == "over stdio":
                    for order in ORDERS[:2] if short else ORDERS:
                        through = in_order(order, reach["url"], packages, place / order)
                        compare(f"a server {what}, {order}", alone, through, report)
                # Sessions with a server over HTTP cost no processes.
                if argv == [url]:
                    through = verdicts(reach["url"], packages, place / "together", together=True)
                    compare(f"a server {what}, both revisions at once", alone, through, report)


def verdicts(url, packages, results, together=False):
    """Returns the checks that fail, by revision and scenario: one revision after the other, or all at once."""
    with ThreadPoolExecutor(len(REVISIONS) if together else 1) as pool:
        found = pool.map(lambda revision: verdict(url, packages, results / revision, revision), REVISIONS)
        return dict(zip(REVISIONS, found))


def in_order(order, url, packages, results):
    """Returns the checks that fail, by revision and scenario: each scenario by itself, of both revisions, in an order."""
    scenarios = [(revision, name) for revision in REVISIONS for name in required(packages, revision)]
    if order == "backward":
        scenarios.reverse()
    else:
        random.Random(order).shuffle(scenarios)
    rows = [(revision, name, str(results / revision / name)) for revision, name in scenarios]
    for *_, place in rows:
        pathlib.Path(place).mkdir(parents=True)
    (results / "rows.json").write_text(json.dumps(rows))
    suite = packages.node(f"{PACKAGE}/dist/index.js")
    argv = ["node", "--import", HERE / "older-node.mjs", HERE / "in-order.mjs", suite, url, results / "rows.json"]
    ended = client(argv, SECONDS, results)
    found = {revision: {} for revision in REVISIONS}
    for revision, name, place in rows:
        found[revision][name] = failed_in(pathlib.Path(place), ended).get(name)
    return found


def verdict(url, packages, results, revision):
    """Returns the checks that fail, by the scenarios that a revision requires. What is only warned of does not count."""
    found = failing(["--requirements", revision], url, packages, results)
    return {name: found.get(name) for name in required(packages, revision)}


def failing(which, url, packages, results):
    """Runs scenarios, and returns the checks that fail by scenario."""
    results.mkdir(parents=True)
    ended = client(suite(packages, "server", *which, "--url", url, "--output-dir", results), SECONDS, results)
    return failed_in(results, ended)


def failed_in(results, ended):
    found = {}
    for file in results.glob("*/checks.json"):
        name = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", file.parent.name.removeprefix("server-"))
        checks = json.loads(file.read_text())
        found[name] = sorted(check["id"] for check in checks if check["status"] == "FAILURE")
    if not found:
        raise Failed(f"no verdict: {ended}")
    return found


def run_clients(program, packages, scratch, report):
    """The gateway before the servers of the suite, of which most need a login."""
    for revision in REVISIONS:
        results = scratch / "clients" / revision
        results.mkdir(parents=True)
        command = f"{sys.executable} {HERE / 'client.py'} {program}"
        client(suite(packages, "client", "--requirements", revision, "--command", command, "-o", results), SECONDS, results)
        wanted = required(packages, revision, "client")
        for name in wanted:
            checks = [json.loads(file.read_text()) for file in results.glob(f"{name}-2*/checks.json")]
            flaws = [check["id"] for check in sum(checks, []) if check["status"] in ("FAILURE", "WARNING")]
            if bool(flaws or not checks) != (name in CLIENT_FAILS):
                report.not_ok("conformance", f"{name} of {revision}, the gateway as a client", flaws or "as if it were right")
        report.ok("conformance", f"the gateway as a client, {revision}", f"{len(wanted)} scenarios")


def suite(packages, *words):
    return ["node", "--import", HERE / "older-node.mjs", packages.node(f"{PACKAGE}/dist/index.js"), *words]


def required(packages, revision, kind="server"):
    """Returns the scenarios for servers, or clients, that a revision requires."""
    text = packages.node(f"{PACKAGE}/requirements/{revision}.yaml").read_text()
    listed = re.search(rf"^{kind}:\n((?:  - .*\n)+)", text, re.MULTILINE)
    return [line.removeprefix("  - ") for line in listed[1].splitlines()]


def compare(what, alone, through, report):
    for revision in REVISIONS:
        known, found = alone[revision], through[revision]
        others = [name for name in known if known[name] != found[name]]
        for name in others:
            report.not_ok("conformance", f"{name} of {revision}, {what}", f"{known[name]} alone, {found[name]} through it")
        if not others:
            report.ok("conformance", f"{what}, {revision}", f"{len(known)} scenarios as alone")
