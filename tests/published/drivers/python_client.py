"""The Python client: holds a conversation with each server of a job, and prints what was heard as JSON.

Arguments: a file with the job, as drivers/conversation.mjs has it, and the mode of the client.
"""

import asyncio
import json
import pathlib
import sys
import traceback

import mcp
import mcp.client.session
from mcp import types
from mcp.client.stdio import StdioServerParameters

SECONDS = 60
# The client takes a server that needs 10 s to start for an old one, which it may need on a machine with much to do.
mcp.client.session.DISCOVER_TIMEOUT_SECONDS = SECONDS / 2


async def main():
    job = json.loads(pathlib.Path(sys.argv[1]).read_text())
    mode = sys.argv[2]
    pairs = await asyncio.gather(*(named(server, job["roots"], mode) for server in job["servers"]))
    print(json.dumps(dict(pairs)))


async def named(server, roots, mode):
    try:
        return server["name"], await asyncio.wait_for(hear(server, roots, mode), SECONDS)
    except BaseException:
        return server["name"], {"failed": traceback.format_exc()}


async def hear(server, roots, mode):
    steps = []

    async def sampled(*_):
        text = types.TextContent(type="text", text="sampled")
        return types.CreateMessageResult(role="assistant", model="m", content=text)

    async def declined(*_):
        return types.ElicitResult(action="decline")

    async def listed(*_):
        return types.ListRootsResult(roots=[types.Root(uri=f"file://{roots}", name="files")])

    async def progressed(progress, total, _):
        steps.append([progress, total])

    if "url" in server:
        place = server["url"]
    else:
        place = StdioServerParameters(command=server["command"], args=server["args"], env=server["env"])
    callbacks = {"sampling_callback": sampled, "elicitation_callback": declined, "list_roots_callback": listed}
    async with mcp.Client(place, mode=mode, **callbacks) as client:
        heard = {
            "revision": client.protocol_version,
            "server": plain(client.server_info),
            "capabilities": plain(client.server_capabilities),
            "instructions": client.instructions,
            "tools": await tools(client, server["least"]),
            "prompts": await outcome(client.list_prompts()),
            "resources": await outcome(client.list_resources()),
            "templates": await outcome(client.list_resource_templates()),
            "calls": [],
            "got": [],
            "read": [],
        }
        for name, arguments in server["calls"]:
            watch = progressed if "long-running" in name else None
            heard["calls"].append(await outcome(client.call_tool(name, arguments, progress_callback=watch)))
        for name, arguments in server["prompts"]:
            heard["got"].append(await outcome(client.get_prompt(name, arguments)))
        rows = heard["resources"].get("result", {}).get("resources", [])
        for row in [row for row in rows if not row["uri"].startswith("ctx://")][:3]:
            heard["read"].append(await outcome(client.read_resource(row["uri"])))
        heard["progress"] = steps
    return heard


async def tools(client, least):
    """Servers behind a gateway may come late."""
    while True:
        listed = await outcome(client.list_tools())
        if "error" in listed or len(listed["result"]["tools"]) >= least:
            return listed
        await asyncio.sleep(0.2)


async def outcome(work):
    try:
        return {"result": plain(await work)}
    except mcp.MCPError as error:
        return {"error": {"code": error.error.code, "message": error.error.message}}
    except Exception as error:
        return {"error": {"message": repr(error)}}


def plain(value):
    return value and value.model_dump(mode="json", by_alias=True, exclude_none=True)


asyncio.run(main())
