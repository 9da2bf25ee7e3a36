"""A relay before an endpoint, which counts the tokens of all replies."""

import http.client
import http.server
import json
import threading
import urllib.parse


class Relay:
    """A relay on a port of its own. `usage` is what the endpoint has counted so far: tokens in and out."""

    def __init__(self, url):
        self.to = urllib.parse.urlsplit(url).netloc
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
