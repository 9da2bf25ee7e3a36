"""The client of the suite's scenarios for clients: the gateway before the server, and logins as a browser makes them.

Arguments: the program, and the URL of the server. The scenario is in the environment.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

# The document that the suite knows.
DOCUMENT = "https://conformance-test.local/client-metadata.json"
LOGINS = 2
INFO = {"name": "suite", "version": "1"}
KEY = "io.modelcontextprotocol/"
CAPABILITIES = {"elicitation": {"applyDefaults": True, "form": {}}}
META = {KEY + "protocolVersion": "2026-07-28", KEY + "clientCapabilities": CAPABILITIES, KEY + "clientInfo": INFO}
PROGRAM, URL = sys.argv[1:]


class Stays(urllib.request.HTTPRedirectHandler):
    """Follows no redirect."""

    def redirect_request(self, *_):
        return None


def main():
    with tempfile.TemporaryDirectory(prefix="ctxfs-mcp-") as scratch:
        scratch = pathlib.Path(scratch)
        os.environ.update(XDG_STATE_HOME=str(scratch / "state"), CTXFS_STORE=str(scratch / "store"))
        for login in range(LOGINS + 1):
            answer = conversation()
            if "ctxfs mcp login" not in answer or login == LOGINS:
                break
            if not logged_in(scratch):
                return 1
    print(answer, file=sys.stderr)
    return int("ctxfs mcp login" in answer)


def conversation():
    """Calls all tools of the server through the gateway. Returns all that comes."""
    child = subprocess.Popen([PROGRAM, "mcp", "-c", "c7", "--no-context-tools", "--", URL], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    heard = []

    def ask(method, **params):
        if is_new:
            params["_meta"] = META
        send({"id": len(heard) + 1, "method": method, "params": params})
        for line in child.stdout:
            message = json.loads(line)
            if message.get("method") == "elicitation/create":
                send({"id": message["id"], "result": accepted(message)})
            elif message.get("id") == len(heard) + 1:
                heard.append(line)
                return message.get("result", {})

    def send(message):
        child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        child.stdin.flush()

    is_new = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "") >= "2026"
    if is_new:
        ask("server/discover")
    else:
        ask("initialize", protocolVersion="2025-11-25", capabilities=CAPABILITIES, clientInfo=INFO)
        send({"method": "notifications/initialized"})
    for tool in ask("tools/list").get("tools", []):
        properties = tool["inputSchema"].get("properties", {})
        given = {name: 1 for name, schema in properties.items() if schema.get("type") in ("number", "integer")}
        call = {"name": tool["name"], "arguments": given}
        result = ask("tools/call", **call)
        while result.get("resultType") == "input_required":
            answers = {name: accepted(question) for name, question in result["inputRequests"].items()}
            state = {"requestState": result["requestState"]} if "requestState" in result else {}
            result = ask("tools/call", **call, inputResponses=answers, **state)
    child.stdin.close()
    child.wait()
    return "".join(heard)


def accepted(question):
    properties = question["params"]["requestedSchema"]["properties"]
    content = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    return {"action": "accept", "content": content}


def logged_in(scratch):
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    options = ["--client-metadata-url", DOCUMENT]
    if "client_id" in context:
        (scratch / "secret").write_text(context["client_secret"])
        options += ["--client-id", context["client_id"], "--client-secret-file", str(scratch / "secret")]
    child = subprocess.Popen([PROGRAM, "mcp", "login", URL, *options], stdout=subprocess.PIPE, text=True)
    if address := child.stdout.readline().strip():
        try:
            urllib.request.build_opener(Stays).open(address)
        except urllib.error.HTTPError as answer:
            urllib.request.urlopen(answer.headers["Location"]).read()
    return child.wait() == 0


sys.exit(main())
