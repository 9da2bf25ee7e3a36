"""Asks questions through both forms, before an endpoint that checks and speaks with the types of the published SDKs.

    PYTHONPATH=tests PYTHON -m models.wire PROGRAM DIRECTORY

PYTHON has the SDKs.
"""

import http.server
import json
import pathlib
import re
import subprocess
import sys
import threading

from hosts.report import Failed, Report

from models.forms import IN, OUT, Anthropic, OpenAi, compact, stream

KEY = "sk-0123456789"
FOUND = "ERROR disk sdb1 is full"
OUTPUT = "".join(f"INFO step {number} is done\n" for number in range(400)) + FOUND + "\n"


class Endpoint:
    """An endpoint on a port of its own, which answers with the replies of a script in turn."""

    def __init__(self, form, script):
        self.form, self.script, self.bodies, self.why = form, script, [], None
        handler = type("Handler", (Handler,), {"endpoint": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def reply(self, path, headers, body):
        try:
            if path != self.form.path or KEY not in headers.get(self.form.key, ""):
                raise Failed(f"path {path}, or no key in `{self.form.key}`")
            self.form.checked(body)
            self.bodies.append(body)
            return stream(self.form.events(*self.script[len(self.bodies) - 1](self.form, body)))
        except Exception as error:  # noqa: BLE001: whatever a type rejects is the outcome
            self.why = f"{type(error).__name__}: {error}"
            raise


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        try:
            reply, status, kind = self.endpoint.reply(self.path, self.headers, body), 200, "text/event-stream"
        except Exception:  # noqa: BLE001
            reply, status, kind = b'{"error":{"message":"it is no request of the SDK"}}', 400, "application/json"
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_):
        pass


def answer(_form, body):
    """Replies with an answer in the wrapper that the request asks for."""
    nonce = re.search(r"ai-agent-([^-]+)-FINAL", json.dumps(body)).group(1)
    return f'Thinking.\n<ai-agent-{nonce}-FINAL format="text">sdb1</ai-agent-{nonce}-FINAL>', []


def grep(_form, body):
    """Calls a tool."""
    name = re.search(r'"([\w.-]+\.txt)"', json.dumps(body).replace('\\"', '"')).group(1)
    return "", [("Grep", compact({"file": name, "pattern": "ERROR"}))]


def looked(form, body):
    """Answers once the result of the tool is there."""
    if not any(FOUND in result for result in form.results(body)):
        raise Failed(f"no result of the tool in {json.dumps(body)[-600:]}")
    return answer(form, body)


def look(form, body):
    """Looks by a form of the schema."""
    choices = form.schema(body)["oneOf"]
    if not any(choice["properties"].get("look", {}).get("const") == "grep" for choice in choices):
        raise Failed(f"no grep in {compact(choices)}")
    return compact({"found": False, "look": "grep", "pattern": "ERROR", "ignore_case": False}), []


def chosen(form, body):
    """Answers with lines that the schema offers."""
    for choice in form.schema(body)["oneOf"]:
        lines = choice["properties"].get("lines", {}).get("items", {}).get("enum", [])
        if 401 in lines:
            return compact({"found": True, "lines": [401], "text": "sdb1"}), []
    raise Failed("line 401 was not shown")


CASES = [
    ("all of an output", "full-chunked", "none", [answer]),
    ("looks by calls of tools", "read-grep", "native", [grep, looked]),
    ("looks by a schema", "read-grep", "none", [look, chosen]),
]


def settings(form, url, tools):
    return f"""[extract]
targets = ["sdk/a"]
[extract.provider.sdk]
kind = "{form.kind}"
base_url = "{url}"
api_key_env = "SDK_KEY"
models.a = {{ context_tokens = 100_000, max_output_tokens = 1000, tools = "{tools}", price_in = 1.0, price_out = 2.0 }}
"""


def run(program, directory, form, case):
    _, mode, tools, script = case
    endpoint = Endpoint(form, script)
    store = pathlib.Path(directory) / f"{form.kind}-{mode}-{tools}"
    config = store / ".config" / "ctxfs"
    config.mkdir(parents=True)
    (config / "ctxfs.toml").write_text(settings(form, endpoint.url(), tools))
    ctxfs = lambda *words, **more: subprocess.run(
        [program, "--store", store, *words], check=True, capture_output=True, timeout=60,
        env={"PATH": "/usr/bin:/bin", "HOME": str(store), "SDK_KEY": KEY}, **more).stdout
    ctxfs("put", "-c", "c7", "--call", "a", input=OUTPUT.encode())
    try:
        told = ctxfs("extract", "--json", "--mode", mode, "c7/artifacts/tool/a.txt", "which disk is full?")
    except subprocess.CalledProcessError as error:
        raise Failed(endpoint.why or error.stderr) from None
    finally:
        endpoint.server.shutdown()
    told = json.loads(told)
    if endpoint.why:
        raise Failed(endpoint.why)
    if told.get("mode") != mode or "sdb1" not in told["text"] or len(endpoint.bodies) != len(script):
        raise Failed(json.dumps(told))
    paid = (told["input"], told["output"])
    if paid != (IN * len(script), OUT * len(script)):
        raise Failed(f"tokens in and out: {paid}")
    return f"{len(script)} calls, {sum(paid)} tokens"


def main(program, directory):
    report = Report()
    for form in (OpenAi(), Anthropic()):
        for case in CASES:
            try:
                report.ok(form.kind, case[0], run(program, directory, form, case))
            except (Failed, subprocess.SubprocessError) as error:
                report.not_ok(form.kind, case[0], error)
    return report.end()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
