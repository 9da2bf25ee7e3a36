"""An MCP server that speaks one way of the protocol alone: `old` (initialize) or `new` (2026-07-28).

Usage: revisions.py old|new|both|silent [http]. `both` takes each request as it says. `silent` is an
old one that answers nothing before initialize. With `http`, it prints its port and serves streamable HTTP there.
"""
import json
import os
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KIND = sys.argv[1]
IS_NEW = KIND == "new"
MODERN = "2026-07-28"
KEY = "io.modelcontextprotocol/"
TOOLS = ["echo", "ask", "forever", "quick", "late", "long", "many", "seen", "structured", "progress", "log", "change",
         "update", "die", "sleep", "page", "nothing"]
SEEN = []
LOCK = threading.Lock()
STATE = {"initialized": False, "next": 0, "waiting": {}, "listening": {}, "subscribed": set(), "level": None}


def text(value):
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


class Failed(Exception):
    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.error = {"code": code, "message": message, **({"data": data} if data else {})}


class Peer:
    """What a message came on: where answers to it, and what belongs to it, go."""

    def __init__(self, write):
        self.write = write

    def send(self, message):
        self.write({"jsonrpc": "2.0", **message})

    def begin(self, method, params):
        """Sends a request. Returns what waits for its answer."""
        with LOCK:
            STATE["next"] += 1
            id = "q-%d" % STATE["next"]
            event = STATE["waiting"][id] = threading.Event()
        self.send({"id": id, "method": method, **({"params": params} if params is not None else {})})
        return event


def ask_all(peer, requests):
    events = [peer.begin(one["method"], one.get("params")) for one in requests]
    for event in events:
        event.wait()
    return [{name: event.reply[name] for name in ("result", "error") if name in event.reply} for event in events]


def notify(method, params):
    """Tells those who listen."""
    if not IS_NEW:
        return STATE["peer"].send({"method": method, "params": params})
    for id, (peer, filter) in list(STATE["listening"].items()):
        names = {"notifications/tools/list_changed": "toolsListChanged"}
        if filter.get(names.get(method)) or params.get("uri") in filter.get("resourceSubscriptions", []):
            peer.send({"method": method, "params": {**params, "_meta": {KEY + "subscriptionId": id}}})


def call(peer, params):
    name, args = params["name"], params.get("arguments") or {}
    if name == "echo":
        return text(params)
    if name == "ask":
        if not IS_NEW:
            replies = []
            for group in args["groups"]:
                replies += ask_all(peer, group)
            return text(replies)
        rounds = args["rounds"]
        done = int(params.get("requestState", "0/").split("/")[0])
        if done == len(rounds):
            return text(params)
        asked = {"resultType": "input_required", "requestState": "%d/\u00e9" % (done + 1)}
        if rounds[done]:
            asked["inputRequests"] = rounds[done]
        return asked
    if name == "forever":
        request = {"method": "roots/list"}
        if IS_NEW:
            return {"resultType": "input_required", "inputRequests": {"r": request}}
        while "result" in ask_all(peer, [request])[0]:
            pass
        return text("nobody answers")
    if name == "quick":
        peer.begin("roots/list", None)
        return text("quick")
    if name == "late":
        time.sleep(args["seconds"])
        return text(ask_all(peer, [{"method": "roots/list"}]))
    if name == "many":
        return {"content": [{"type": "text", "text": "row %d" % n} for n in range(args["rows"])]}
    if name == "long":
        return text("a row of text\n" * (args["size"] // 14))
    if name == "seen":
        return text(SEEN)
    if name == "structured":
        return {**text(args["value"]), "structuredContent": args["value"]}
    if name == "progress":
        token = params.get("_meta", {}).get("progressToken")
        for step in range(2):
            if args.get("ask") and step:
                ask_all(peer, [{"method": "roots/list"}])
            peer.send({"method": "notifications/progress", "params": {"progressToken": token, "progress": step}})
        return text("done")
    if name == "log":
        level = params["_meta"].get(KEY + "logLevel") if IS_NEW else STATE["level"]
        if level or not IS_NEW:
            peer.send({"method": "notifications/message", "params": {"level": "info", "data": level}})
        return text("done")
    if name == "change":
        notify("notifications/tools/list_changed", {})
        return text("done")
    if name == "update":
        notify("notifications/resources/updated", {"uri": args["uri"]})
        return text("done")
    if name == "die":
        os._exit(3)
    if name == "sleep":
        time.sleep(args["seconds"])
        return text("slept")
    if name == "page":
        if not STATE.get("visited"):
            STATE["visited"] = True
            page = {"mode": "url", "message": "Visit", "url": "https://x/", "elicitationId": "e"}
            raise Failed(-32042, "Visit", {"elicitations": [page]})
        return text(params)
    if name == "nothing":
        threading.Event().wait()
    raise Failed(-32602, "Unknown tool")


def respond(peer, method, params):
    if method == "tools/list":
        schema = {"type": "object"}
        tools = [{"name": name, "inputSchema": schema} for name in TOOLS]
        if IS_NEW:
            tools[-1]["outputSchema"] = {"type": "array"}
        return {"tools": tools}
    if method == "tools/call":
        return call(peer, params)
    if method == "resources/list":
        return {"resources": [{"uri": "mem://a", "name": "a"}]}
    if method == "resources/templates/list":
        return {"resourceTemplates": []}
    if method == "prompts/get" or method == "resources/read":
        if params.get("uri") == "mem://missing":
            raise Failed(-32602 if IS_NEW else -32002, "no such resource")
        if IS_NEW and "inputResponses" not in params:
            return {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}}
        roots = params["inputResponses"]["r"] if IS_NEW else ask_all(peer, [{"method": "roots/list"}])[0]["result"]
        if method == "prompts/get":
            return {"messages": [{"role": "user", "content": {"type": "text", "text": json.dumps(roots)}}]}
        return {"contents": [{"uri": params["uri"], "text": json.dumps(roots)}]}
    raise Failed(-32601, "Method not found")


CAPABILITIES = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "prompts": {}, "logging": {}}


def old(peer, method, params):
    if method == "initialize":
        STATE["initialized"] = True
        STATE["client"] = params
        return {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES,
                "serverInfo": {"name": "old", "version": "1"}, "instructions": "Be old."}
    if not STATE["initialized"]:
        if KIND == "silent":
            threading.Event().wait()
        raise Failed(-32602, "Received request before initialization was complete")
    if KEY + "protocolVersion" in params.get("_meta", {}):
        raise Failed(-32602, "I do not know that revision")
    if method == "logging/setLevel":
        STATE["level"] = params["level"]
        return {}
    if method in ("resources/subscribe", "resources/unsubscribe"):
        change = STATE["subscribed"].add if method.endswith("/subscribe") else STATE["subscribed"].discard
        change(params["uri"])
        return {}
    return respond(peer, method, params)


def new(peer, id, method, params):
    meta = params.get("_meta", {})
    if meta.get(KEY + "protocolVersion") != MODERN or KEY + "clientCapabilities" not in meta:
        raise Failed(-32022 if meta else -32601, "I speak %s alone" % MODERN, {"supported": [MODERN]})
    STATE["client"] = meta
    kept = {"ttlMs": 0, "cacheScope": "private"}
    if method == "server/discover":
        result = {"supportedVersions": [MODERN], "capabilities": CAPABILITIES, "instructions": "Be new.",
                  "_meta": {KEY + "serverInfo": {"name": "new", "version": "2"}}, **kept}
    elif method == "subscriptions/listen":
        filter = params["notifications"]
        STATE["listening"][id] = (peer, filter)
        peer.send({"method": "notifications/subscriptions/acknowledged",
                   "params": {"_meta": {KEY + "subscriptionId": id}, "notifications": filter}})
        threading.Event().wait()
    else:
        result = respond(peer, method, params)
        if method.endswith("/list") or method == "resources/read":
            result = {**kept, **result}
    return {"resultType": "complete", **result}


def take(peer, message):
    """Answers a message. Those with a method run side by side."""
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None:
        event = STATE["waiting"].pop(id, None)
        SEEN.append({"reply": id, **({"error": message["error"]} if "error" in message else {})})
        if event:
            event.reply = message
            event.set()
        return
    if params.get("name") != "seen":
        SEEN.append({"method": method, **({"params": params} if method == "notifications/cancelled" else {})})
    if id is None:
        if method == "notifications/cancelled":
            STATE["listening"].pop(params["requestId"], None)
        if method == "notifications/initialized" and "EARLY" in os.environ:
            peer.begin("roots/list", None)
        return
    try:
        is_new = IS_NEW or KIND == "both" and KEY + "protocolVersion" in params.get("_meta", {})
        result = new(peer, id, method, params) if is_new else old(peer, method, params)
        peer.send({"id": id, "result": result})
    except Failed as failed:
        peer.send({"id": id, "error": failed.error})


def stdio():
    def write(message):
        with LOCK:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    peer = STATE["peer"] = Peer(write)
    while line := sys.stdin.readline():
        message = json.loads(line)
        if "method" in message and "id" in message and message["method"] != "initialize":
            threading.Thread(target=take, args=(peer, message), daemon=True).start()
            # They are taken in their order, and run side by side.
            time.sleep(0.002)
        else:
            take(peer, message)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def plain(self, status, body=None, headers=()):
        body = json.dumps(body).encode() if body is not None else b""
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if IS_NEW:
            return self.plain(405)
        self.stream(self.listen)

    do_DELETE = do_GET if IS_NEW else lambda self: self.plain(204)

    def listen(self, peer):
        STATE["peer"] = peer
        threading.Event().wait()

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, params, meta = message.get("method"), message.get("params") or {}, {}
        meta = params.get("_meta") or {}
        refused = {"jsonrpc": "2.0", "id": None, "error": {"code": -32020, "message": "HeaderMismatch"}}
        if IS_NEW:
            expected = [("mcp-protocol-version", meta.get(KEY + "protocolVersion")), ("mcp-method", method)]
            if method in ("tools/call", "prompts/get", "resources/read"):
                expected.append(("mcp-name", params.get("name") or params.get("uri")))
            if any(value is None or self.headers.get(name) != value for name, value in expected):
                return self.plain(400, refused)
        elif method != "initialize" and self.headers.get("mcp-session-id") != STATE.get("session", "none"):
            refused["error"] = {"code": -32000, "message": "Bad Request: Server not initialized"}
            return self.plain(400, refused)
        elif method != "initialize" and self.headers.get("mcp-protocol-version") != "2025-11-25":
            return self.plain(400, refused)
        if "method" not in message or "id" not in message:
            take(Peer(lambda _: None), message)
            return self.plain(202)
        if method == "initialize":
            STATE["session"] = str(uuid.uuid4())
            out = []
            take(Peer(out.append), message)
            return self.plain(200, out[0], [("mcp-session-id", STATE["session"])])
        self.stream(lambda peer: take(peer, message))

    def stream(self, work):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        lock = threading.Lock()

        def write(message):
            with lock:
                try:
                    self.wfile.write(b"data: " + json.dumps(message).encode() + b"\n\n")
                    self.wfile.flush()
                except OSError:
                    SEEN.append({"closed": message.get("method")})

        work(Peer(write))
        self.close_connection = True


def main():
    if len(sys.argv) > 2:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        print(server.server_address[1], flush=True)
        server.serve_forever()
    else:
        stdio()


main()
