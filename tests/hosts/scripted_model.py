"""A model that says what a script says, on a port of this machine, in the protocols of all hosts."""

import json
import re
import subprocess
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from hosts.wires import anthropic, chat, gemini, responses

WIRES = [anthropic, responses, chat, gemini]
# The tokens that an ordinary answer claims, and one that has its host compact the conversation.
FEW, MANY = 1_000, 5_000_000
# Requests after which a scene is over, whatever the host wants: it does not come to an end.
MOST_REQUESTS = 60
# Not the view `.summary`.
SUMMARY_WANTED = re.compile(r"(?<!\.)summar|compaction|compress|checkpoint|state_snapshot", re.IGNORECASE)


@dataclass
class Call:
    """A call of a tool. Codex alone knows namespaces."""

    tool: str
    arguments: dict
    namespace: str = ""


@dataclass
class Said:
    """One answer of the model: calls, or else a text."""

    calls: list = field(default_factory=list)
    text: str = ""
    tokens: int = FEW


@dataclass
class Turn:
    """What the model was sent for the calls of one step: the request, the results in it, the seconds until it came."""

    body: dict
    results: list
    seconds: float

    @property
    def result(self):
        return self.results[-1]


class Scene:
    """One run of a host. A step is an answer, or a function that makes it of the results of the step before."""

    def __init__(self, name, steps):
        self.name, self.steps = name, list(steps)
        self.prompt = f"Play {name}."
        self.over = f"End of {name}."
        self.bodies = []
        self.turns = []
        # The places of the requests for a summary among the bodies.
        self.summaries = []
        self.asked = None
        self.lock = threading.Lock()

    def answer(self, wire, body):
        with self.lock:
            self.bodies.append(body)
            return self.next_said(wire, body)

    def next_said(self, wire, body):
        last = wire.last_said(body)
        if self.prompt not in last and SUMMARY_WANTED.search(last):
            self.summaries.append(len(self.bodies) - 1)
            # A host may go on after the summary alone: it still is this scene.
            return Said(text=f"Summary: {self.prompt}")
        if not body.get("tools") or self.prompt not in json.dumps(body):
            return Said(text="A title")
        results = self.take_results(wire, body)
        if not self.steps or len(self.bodies) > MOST_REQUESTS:
            return Said(text=self.over)
        step = self.steps.pop(0)
        said = step(results) if callable(step) else step
        self.asked = (len(said.calls), time.monotonic()) if said.calls else None
        return said

    def take_results(self, wire, body):
        if not self.asked:
            return []
        count, since = self.asked
        self.asked = None
        results = wire.results(body)[-count:]
        self.turns.append(Turn(body, results, time.monotonic() - since))
        return results

    @property
    def since_summary(self):
        """Returns the requests from the one for the last summary on."""
        return self.bodies[self.summaries[-1]:] if self.summaries else []

    def sent(self):
        """Returns all that the model was sent, as one text of JSON."""
        return "\n".join(json.dumps(body) for body in self.bodies)


class ScriptedModel:
    """The server. It plays one scene at a time."""

    def __init__(self):
        self.scene = Scene("nothing", [])
        self.number = 0
        handler = type("Handler", (ModelHandler,), {"model": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def play(self, name, steps):
        self.scene = Scene(name, steps)
        return self.scene

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def reply(self, path, body):
        wire = next((wire for wire in WIRES if wire.speaks(path)), None)
        if wire is None:
            return {"input_tokens": FEW, "totalTokens": FEW}
        self.number += 1
        stream = body.get("stream") or "stream" in path
        return wire.reply(body, self.number, self.scene.answer(wire, body), stream)


class ModelHandler(BaseHTTPRequestHandler):
    """One connection of a host."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.send("application/json", b"")

    def do_GET(self):
        model = {"id": "scripted", "object": "model", "created": 1, "owned_by": "nobody"}
        self.send("application/json", json.dumps({"object": "list", "data": [model], "models": []}).encode())

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "zstd":
            raw = subprocess.run(["zstd", "-dc"], input=raw, capture_output=True, check=True).stdout
        reply = self.model.reply(self.path.split("?")[0], json.loads(raw or b"{}"))
        if isinstance(reply, dict):
            return self.send("application/json", json.dumps(reply).encode())
        self.send("text/event-stream", b"".join(map(as_event, reply)))

    def send(self, kind, body):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def as_event(event):
    text = event if isinstance(event, str) else json.dumps(event)
    name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
    return f"{name}data: {text}\n\n".encode()
