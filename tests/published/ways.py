"""The ways to a server: directly, and through the gateway, over both transports."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
from dataclasses import dataclass

from hosts import children
from hosts.report import Failed

# The conversation of the gateway.
CONVERSATION = "c7"
# Seconds for the start of a server.
PATIENCE = 30


@dataclass
class Way:
    """A way to the servers, and the store of the gateway on it, if there is one."""

    name: str
    store: pathlib.Path = None
    http: bool = False
    # Whether the gateway finds the server in a file.
    file: bool = False


@contextlib.contextmanager
def opened(way, server, program, scratch):
    """Returns how a client reaches a server by this way: the members of a job."""
    own = scratch / way.name.replace(" ", "-") / server.name
    own.mkdir(parents=True)
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    env |= environment(server, own)
    argv = [str(word) for word in server.argv]
    if way.store:
        options = ["--http", "0"] if way.http else []
        store = ["--store", str(way.store / server.name)]
        rest = ["--servers", str(file_of(argv, own))] if way.file else ["--", *argv]
        argv = [str(program), "mcp", *store, "-c", CONVERSATION, *options, *rest]
    if not way.http:
        yield {"command": argv[0], "args": argv[1:], "env": env}
        return
    with running(argv, env, own / "log") as log:
        yield {"url": url_in(log)}


def environment(server, own):
    """Returns the variables of a server, with a directory of its own."""
    return {name: value.replace("SCRATCH", str(own)) for name, value in server.env.items()}


def file_of(argv, own):
    """Returns a file with one server, whose tools keep their names."""
    file = own / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"s": {"command": argv[0], "args": argv[1:], "prefix": ""}}}))
    return file


@contextlib.contextmanager
def running(argv, env, log):
    """Runs a server over HTTP, and ends it. Returns the file with what it says."""
    with log.open("w") as out:
        child = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield log
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            child.kill()
            raise Failed(f"does not end: {' '.join(argv)}") from None


def client(argv, seconds, cwd):
    """Runs a client to its end. Unlike `children.run`, leaves what others have started meanwhile."""
    out, err = (cwd / "client.out"), (cwd / "client.err")
    with out.open("w") as stdout, err.open("w") as stderr:
        child = subprocess.Popen([str(word) for word in argv], cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout,
                                 stderr=stderr, start_new_session=True)
    try:
        code = child.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise Failed(f"the client does not end within {seconds} s: {err.read_text()[-600:]}") from None
    return children.Ended(code, out.read_text(), err.read_text())


def url_in(log):
    """Waits until a gateway says where it listens."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for line in log.read_text().splitlines():
            if "listening on " in line:
                return line.split("listening on ")[1].strip()
        time.sleep(0.05)
    raise Failed(f"no address in {log.read_text()!r}")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(port):
    """Waits until somebody listens on a port."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise Failed(f"nobody listens on port {port}")
