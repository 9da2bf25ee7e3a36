"""What a client heard through the gateway, against what it heard directly."""

import json
import re

from hosts.report import Failed

from published.servers import UNKNOWN
from published.ways import CONVERSATION

# The number of tools that the gateway adds.
OWN_TOOLS = 5
# Characters above which a result is long.
LONG = 4000
# What every result has since 2026-07-28, and what is no more since then: tasks are an extension.
NEW, OLD = ("resultType", "ttlMs", "cacheScope"), ("tasks", "execution")
# Bytes that all of a stand-in may have.
MOST_SHOWN = 10_000
# What differs between two runs of a server without a gateway.
TIMES = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)|\d+:\d\d:\d\d( [AP]M)?")


def compare(direct, through, way, server):
    """Fails with the first difference that must not be."""
    for heard in (direct, through):
        if "failed" in heard:
            raise Failed(heard["failed"])
    same("the server", direct.get("server"), through.get("server"))
    # Before an older server, the gateway speaks the newest revision that the client asks for.
    older = direct.get("revision") or through.get("revision") or ""
    newer = through.get("revision") or older
    if older > newer:
        raise Failed(f"revision {newer} instead of {older}")
    if older < newer:
        direct, through = without(OLD, direct), without(OLD, through)
    same("capabilities", with_own(direct["capabilities"]), with_own(through["capabilities"]))
    if not (through.get("instructions") or "").startswith(direct.get("instructions") or ""):
        raise Failed(f"instructions: {through.get('instructions')}")
    tools(direct["tools"], through["tools"])
    for what in ("prompts", "resources", "templates"):
        listed(what, direct[what], through[what])
    for (name, arguments), one, other in zip(server.calls, direct["calls"], through["calls"]):
        call(f"{name} {json.dumps(arguments)}", one, other, way.store / server.name)
    for what in ("got", "read"):
        same(what, direct[what], through[what])
    # Over HTTP, the newest revision says it by the status.
    if older == newer:
        same("unknown", direct.get("unknown"), through.get("unknown"))
    same("progress", direct["progress"], through["progress"])
    return f"{len(server.calls)} calls, revision {through.get('revision') or 'as negotiated'}"


def compare_several(direct, through, servers, store):
    """Compares what was heard of several servers behind one gateway with what was heard of each."""
    if "failed" in through:
        raise Failed(through["failed"])
    listed = {row["name"]: row for row in through["tools"]["result"]["tools"]}
    calls, prompts = iter(through["calls"]), iter(through["got"])
    for server in servers:
        heard = direct[server.name]
        names = [row["name"] for row in heard["tools"]["result"]["tools"]]
        for row in heard["tools"]["result"]["tools"]:
            same(row["name"], row["inputSchema"], listed[f"{server.name}__{row['name']}"]["inputSchema"])
        for (name, arguments), one in zip(server.calls, heard["calls"]):
            other = next(calls)
            # What a server says of an unknown tool, the gateway says in its own words.
            if name in names:
                call(f"{server.name} {name} {json.dumps(arguments)}", one, other, store)
        for (name, _), one in zip(server.prompts, heard["got"]):
            other = next(prompts)
            if name != UNKNOWN:
                same(f"{server.name} {name}", one, other)
    return f"{len(listed)} tools, {len(through['calls'])} calls"


def same(what, one, other):
    one, other = steady(one), steady(other)
    if one != other:
        raise Failed(f"{what}: {json.dumps(one)[:700]} and {json.dumps(other)[:700]}")


def steady(value):
    text = TIMES.sub("TIME", json.dumps(without(NEW, value), sort_keys=True))
    return json.loads(text)


def without(keys, value):
    """Returns a value without the members of these names."""
    if isinstance(value, list):
        return [without(keys, one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: without(keys, one) for key, one in value.items() if key not in keys}


def with_own(capabilities):
    """Returns capabilities with those of the gateway's own."""
    return {"tools": {}, "resources": {}, **(capabilities or {})}


def tools(direct, through):
    if "error" in direct or "error" in through:
        raise Failed(f"no tools: {json.dumps([direct, through])[:700]}")
    rows = lambda outcome: outcome["result"]["tools"]
    is_own = lambda row: row["name"].startswith("context_") or row["name"] == "tool_output"
    same("tools", rows(direct), [row for row in rows(through) if not is_own(row)])
    if (own := sum(map(is_own, rows(through)))) != OWN_TOOLS:
        raise Failed(f"{own} context tools")


def listed(what, direct, through):
    """Compares lists without what the gateway adds. Where the server has none, there is that alone."""
    through = json.loads(json.dumps(through))
    rows = through.get("result", {})
    for kind, key in (("resources", "uri"), ("resourceTemplates", "uriTemplate")):
        if kind in rows:
            rows[kind] = [row for row in rows[kind] if not row[key].startswith("ctx://")]
    if "error" in direct and not any(rows.get(kind) for kind in ("resources", "resourceTemplates", "prompts")):
        return
    lists = lambda outcome: {kind: value for kind, value in outcome.get("result", {}).items() if kind in (
        "prompts", "resources", "resourceTemplates", "nextCursor")}
    same(what, [lists(direct), direct.get("error")], [lists(through), through.get("error")])


def call(what, direct, through, store):
    texts = [text_of(block) for block in direct.get("result", {}).get("content", [])]
    if sum(map(len, texts)) <= LONG:
        return same(what, direct, through)
    if "error" in through:
        raise Failed(f"{what}: {json.dumps(through)[:700]}")
    content = through["result"]["content"]
    links = [block for block in content if block["type"] == "resource_link"]
    if not links:
        raise Failed(f"{what}: no link in {json.dumps(through)[:700]}")
    stored = [(store / "context" / uri_path(link)).read_bytes().decode() for link in links]
    if missing := [text for text in texts if text not in stored and text not in map(text_of, content)]:
        raise Failed(f"{what}: what is stored is not the text: {missing[0][:200]!r}")
    # Scripts read the structure, and models the rest.
    structure = lambda outcome: outcome["result"].get("structuredContent")
    same(f"the structure of {what}", structure(direct), structure(through))
    if (shown := len(json.dumps(without(["structuredContent"], through)))) > MOST_SHOWN:
        raise Failed(f"{what}: {shown} bytes are shown")


def uri_path(link):
    path = link["uri"].removeprefix("ctx://")
    if not path.startswith(f"{CONVERSATION}/"):
        raise Failed(f"a link out of the conversation: {link}")
    return path


def text_of(block):
    return block.get("text") or block.get("resource", {}).get("text") or ""
