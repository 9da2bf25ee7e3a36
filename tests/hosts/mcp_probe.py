#!/usr/bin/env python3
"""An MCP server on standard input and output with one tool, `big`: text in one of the forms in which servers answer."""

import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import outputs  # noqa: E402

FORMS = ["text", "blocks", "structured", "picture", "error"]
TOOL = {
    "name": "big",
    "description": "returns a text of so many bytes",
    "annotations": {"readOnlyHint": True},
    "inputSchema": {
        "type": "object",
        "properties": {"bytes": {"type": "integer"}, "form": {"type": "string", "enum": FORMS}},
    },
}


def called(arguments):
    size, form = int(arguments.get("bytes", 100)), arguments.get("form", "text")
    text = outputs.rows(size)
    content = [{"type": "text", "text": text}]
    if form == "blocks":
        content = [{"type": "text", "text": part} for part in outputs.halves(text)]
    if form == "picture":
        content.append({"type": "image", "data": outputs.picture(), "mimeType": "image/png"})
    result = {"content": content, "isError": form == "error"}
    if form == "structured":
        result["structuredContent"], _ = outputs.structured(size)
    return result


def answer(method, parameters):
    if method == "initialize":
        version = parameters.get("protocolVersion", "2025-06-18")
        server = {"name": "probe", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        return called(parameters.get("arguments") or {})
    return {} if method == "ping" else None


def main():
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(request["method"], request.get("params") or {})
        reply = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **reply}), flush=True)


if __name__ == "__main__":
    main()
