"""The public conformance suite: its verdict on a server, and on the gateway in front of that server."""

import contextlib
import json
import os
import pathlib
import re

from hosts.report import Failed

from published.servers import Server
from published.ways import Way, client, free_port, opened, running, wait_for

HERE = pathlib.Path(__file__).resolve().parent / "conformance"
SERVER = HERE / "server.mjs"
# Seconds for all scenarios.
SECONDS = 120
# The least scenarios that the suite has.
LEAST = 30


def run(program, packages, scratch, report):
    """Compares the verdicts on a server by itself and behind the gateway."""
    with contextlib.ExitStack() as stack:
        port = free_port()
        server = ["node", SERVER, packages.npm, str(port)]
        env = {"PATH": os.environ["PATH"]}
        stack.enter_context(running([str(word) for word in server], env, scratch / "conformance.log"))
        wait_for(port)
        url = f"http://127.0.0.1:{port}/mcp"
        alone = verdicts(url, packages, scratch / "alone")
        if len(alone) < LEAST or any(alone.values()):
            raise Failed(f"the verdict on the server alone: {alone}")
        report.ok("conformance", "the server alone", f"{len(alone)} scenarios")
        over_stdio = ["node", SERVER, packages.npm, "stdio"]
        places = [("over stdio", over_stdio, False), ("over HTTP", [url], False), ("of a file", over_stdio, True)]
        for number, (what, argv, file) in enumerate(places):
            place = scratch / f"conformance-{number}"
            way = Way("gateway over HTTP", place / "stores", http=True, file=file)
            with opened(way, Server("server", argv, []), program, place) as reach:
                through = verdicts(reach["url"], packages, place / "results")
            compare(f"a server {what}", alone, through, report)


def verdicts(url, packages, results):
    """Returns the checks that fail, by scenario. What is only warned of is no part of the verdict."""
    results.mkdir(parents=True)
    suite = packages.node("@modelcontextprotocol/conformance/dist/index.js")
    argv = ["node", "--import", HERE / "older-node.mjs", suite, "server", "--suite", "all", "--url", url, "--output-dir", results]
    ended = client(argv, SECONDS, results)
    found = {}
    for file in results.glob("*/checks.json"):
        name = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", file.parent.name.removeprefix("server-"))
        checks = json.loads(file.read_text())
        found[name] = sorted(check["id"] for check in checks if check["status"] == "FAILURE")
    if not found:
        raise Failed(f"no verdict: {ended}")
    return found


def compare(what, alone, through, report):
    names = sorted({*alone, *through})
    others = [name for name in names if alone.get(name) != through.get(name)]
    for name in others:
        report.not_ok("conformance", f"{name}, {what}", f"{alone.get(name)} alone, {through.get(name)} through it")
    if not others:
        report.ok("conformance", what, f"{len(names)} scenarios as alone")
