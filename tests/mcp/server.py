"""A scripted MCP server: answers what a test asks of it, on standard input and output."""
import base64
import json
import os
import signal
import sys
import time

out = sys.stdout.buffer


def write(data):
    out.write(data)
    out.flush()


def send(message):
    write(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n")


def answer(id, result):
    send({"id": id, "result": result})


def text(*texts):
    return {"content": [{"type": "text", "text": one} for one in texts]}


def long_text(size):
    line = b"2026-01-13 12:00:00 INFO request took 97 ms: caf\\u00e9 \\\"quoted\\\"\\n"
    return line * (size // len(line) + 1)


def stream(id, size, first=True):
    """A result whose text is longer than this process should hold."""
    head = b'{"jsonrpc":"2.0","id":' + json.dumps(id).encode() + b","
    tail = b"}\n"
    if not first:
        head, tail = b'{"jsonrpc":"2.0",', b',"id":' + json.dumps(id).encode() + b"}\n"
    out.write(head + b'"result":{"content":[{"type":"text","text":"')
    block = long_text(1 << 16)
    for _ in range(size // len(block) + 1):
        out.write(block)
    write(b'"}]}' + tail)


TOOLS = [
    {"name": "echo", "inputSchema": {"type": "object"}, "x-unknown": 1.10},
    {"name": "structured", "inputSchema": {"type": "object"},
     "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "context_tail", "inputSchema": {"type": "object"}, "title": "another"},
]

for more in filter(None, os.environ.get("SERVER_MORE", "").split(",")):
    TOOLS.append({"name": more, "inputSchema": {"type": "object"}})


for tool in TOOLS:
    if wide := int(os.environ.get("SERVER_WIDE", "0")):
        tool["description"] = "x" * wide


def call(id, params):
    name, args = params.get("name"), params.get("arguments") or {}
    if name in ("echo", "context_tail"):
        answer(id, {**text(json.dumps(params, ensure_ascii=False)), "_meta": {"x": 1}})
    elif name == "raw":
        write(args["line"].replace("$ID", json.dumps(id)).encode("utf-8", "surrogateescape") + b"\n")
    elif name == "bytes":
        write(base64.b64decode(args["base64"]).replace(b"$ID", json.dumps(id).encode()) + b"\n")
    elif name == "text":
        answer(id, text(*(args["line"] * count for count in args["counts"])))
    elif name == "stream":
        stream(id, args["size"], args.get("id_first", True))
    elif name == "result":
        answer(id, args["result"])
    elif name == "fail":
        answer(id, {**text(args["line"] * args["count"] + "ERROR: the reason\n"), "isError": True})
    elif name == "error":
        message = args.get("line", "no") * args.get("count", 1)
        send({"id": id, "error": {"code": -32042, "message": message, "data": {"n": 1}}})
    elif name == "progress":
        token = params["_meta"]["progressToken"]
        for step in range(args["steps"]):
            time.sleep(args.get("pause", 0))
            send({"method": "notifications/progress",
                  "params": {"progressToken": token, "progress": step, "total": args["steps"]}})
        answer(id, text("done"))
    elif name == "silent":
        pass
    elif name == "die":
        os._exit(3)
    elif name == "notify":
        for number in range(args["count"]):
            send({"method": "notifications/message",
                  "params": {"level": "info", "data": "x" * args.get("size", 10), "n": number}})
        answer(id, text("done"))
    elif name == "stderr":
        for _ in range(args["count"]):
            sys.stderr.write("noise " * 100 + "\n")
        sys.stderr.flush()
        answer(id, text("done"))
    elif name == "ask":
        send({"id": "q-1", "method": args["method"], "params": args.get("params", {})})
        reply = json.loads(sys.stdin.readline())
        answer(id, text(json.dumps(reply)))
    elif name == "env":
        answer(id, text(json.dumps({name: os.environ.get(name) for name in args["names"]})))
    elif name == "child":
        pid = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "600")
        answer(id, text("%d %d" % (os.getpid(), pid)))
    elif name == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        answer(id, text(str(os.getpid())))
        while True:
            time.sleep(1)
    elif name == "endless":
        write(b'{"jsonrpc":"2.0","id":' + json.dumps(id).encode() + b',"result":"')
        while True:
            write(b"x" * 65536)
    elif name == "sleep":
        time.sleep(args["seconds"])
        answer(id, text("slept"))
    elif name == "hang":
        LISTS["tools/list"] = None
        send({"method": "notifications/tools/list_changed"})
        answer(id, text("done"))
    elif name == "change":
        LISTS["tools/list"] = {"tools": [{"name": "new", "inputSchema": {"type": "object"}}]}
        send({"method": "notifications/tools/list_changed"})
        answer(id, text("done"))
    elif name == "seen":
        answer(id, text(json.dumps(SEEN)))
    else:
        send({"id": id, "error": {"code": -32602, "message": "Unknown tool"}})


SEEN = []
LISTS = json.loads(os.environ.get("SERVER_LISTS", "{}"))


def page(pages, cursor):
    """The page of a list that a cursor names. A page that names `fresh` as the next one names another each time.
    A page with `wide` has as many bytes of metadata."""
    found = dict(pages.get(cursor or "", pages[""]))
    if "wide" in found:
        found["_meta"] = {"x": "y" * found.pop("wide")}
    if found.get("nextCursor") == "fresh":
        found["nextCursor"] = "fresh-%d" % len(SEEN)
    return found


def main():
    time.sleep(float(os.environ.get("SERVER_DELAY", "0")))
    write(os.environ.get("SERVER_FIRST", "").encode("utf-8", "surrogateescape"))
    while line := sys.stdin.readline():
        message = json.loads(line)
        method, id, params = message.get("method"), message.get("id"), message.get("params", {})
        SEEN.append(method)
        if method == "initialize":
            for number in range(int(os.environ.get("SERVER_ASKS", "0"))):
                send({"id": "early-%d" % number, "method": "roots/list", "params": {"x": "y" * 1000}})
            version = os.environ.get("SERVER_VERSION") or params["protocolVersion"]
            answer(id, {"protocolVersion": version, "serverInfo": {"name": "scripted", "version": "1"},
                        "capabilities": json.loads(os.environ.get("SERVER_CAPABILITIES", '{"tools":{"listChanged":true},"logging":{}}')),
                        "instructions": "Be kind.", "x-unknown": 12345678901234567890123})
        elif method == "server/discover":
            answer(id, {"resultType": "complete", "supportedVersions": ["2026-07-28"],
                        "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"})
        elif method in LISTS:
            # Without a list, there is no answer.
            if LISTS[method] is not None:
                pages = LISTS[method].get("pages")
                answer(id, page(pages, params.get("cursor")) if pages else LISTS[method])
        elif method == "tools/list":
            if params.get("cursor") == "two":
                answer(id, {"tools": TOOLS[1:]})
            else:
                answer(id, {"tools": TOOLS[:1], "nextCursor": "two"})
        elif method == "tools/call":
            call(id, params)
        elif method == "resources/read":
            if params["uri"] == "test://big":
                write(b'{"jsonrpc":"2.0","result":{"contents":[{"uri":"test://big","text":"' + b"y" * (3 << 20)
                      + b'"}]},"id":' + json.dumps(id).encode() + b"}\n")
            else:
                answer(id, {"contents": [{"uri": params["uri"], "text": "small"}]})
        elif method == "notifications/cancelled":
            SEEN.append(params)
        elif id is not None and method is not None:
            answer(id, {"method": method, "params": params})


main()
