"""A relay before an endpoint: it counts the tokens of all replies, and can take out the look with which the agent begins."""

import http.client
import http.server
import json
import re
import threading
import urllib.parse

# What the schema says of the look with which the agent begins.
FIND = {
    "type": "object",
    "properties": {"found": {"const": False}, "look": {"const": "find"}, "words": {"type": "string", "maxLength": 80}},
    "required": ["found", "look", "words"],
    "additionalProperties": False,
}
NUMBER = re.compile(r"^(\d+):", re.MULTILINE)


class Relay:
    """A relay on a port of its own. `usage` is what the endpoint has counted so far: tokens in and out."""

    def __init__(self, url, without_first_look=False):
        self.to = urllib.parse.urlsplit(url).netloc
        self.without_first_look = without_first_look
        self.usage, self.requests = (0, 0), 0
        handler = type("Handler", (Handler,), {"relay": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def count(self, event):
        usage = event.get("usage") or {}
        self.usage = (self.usage[0] + usage.get("prompt_tokens", 0),
                      self.usage[1] + usage.get("completion_tokens", 0))


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.relay.without_first_look:
            body = json.dumps(without_first_look(json.loads(body))).encode()
        self.relay.requests += 1
        upstream = http.client.HTTPConnection(self.relay.to)
        upstream.request("POST", self.path, body, {"content-type": "application/json"})
        reply = upstream.getresponse()
        self.send_response(reply.status)
        self.send_header("content-type", reply.headers.get("content-type", "application/json"))
        self.end_headers()
        try:
            self.hand_on(reply)
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            upstream.close()

    def hand_on(self, reply):
        for line in reply:
            self.wfile.write(line)
            self.wfile.flush()
            text = line.removeprefix(b"data: ").strip()
            if text.startswith(b"{"):
                self.relay.count(json.loads(text))

    def log_message(self, *_):
        pass


def without_first_look(body):
    """Takes out of a request the look with which the reading agent begins, and its lines in the schema. The last turn has no looks."""
    messages = body["messages"]
    first = [message["role"] for message in messages].index("user")
    look = messages[first + 1:first + 3]
    if [message["role"] for message in look] != ["assistant", "user"]:
        return body
    later = "".join(message["content"] for message in messages[first + 3:])
    hidden = set(NUMBER.findall(look[1]["content"])) - set(NUMBER.findall(later))
    del messages[first + 1:first + 3]
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    for form in schema.get("oneOf", []):
        hide(form, hidden)
    if not later and len(schema.get("oneOf", [])) > 1:
        # The program leaves it out where it has looked so itself.
        schema["oneOf"].insert(1, FIND)
    return body


def hide(form, hidden):
    """Takes numbers of lines out of a form of the schema; and their list, if none is left."""
    lines = form["properties"].get("lines")
    if lines is None:
        return
    lines["items"]["enum"] = [number for number in lines["items"]["enum"] if str(number) not in hidden]
    if not lines["items"]["enum"]:
        del form["properties"]["lines"]
        form["required"].remove("lines")
