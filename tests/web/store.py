"""A store, which the program itself fills."""

import contextlib
import json
import os
import subprocess
import time

from hosts.report import Failed

# Seconds for a command of ctxfs.
COMMAND = 60


class Store:
    """A store below `place`, with a home of its own."""

    def __init__(self, program, place):
        self.program, self.place, self.path = program, place, place / "store"
        home = place / "home"
        home.mkdir(parents=True)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "xterm", "LANG": "C.UTF-8"}
        self.environment["TMPDIR"] = str(place)

    def ctxfs(self, *words, content=b"", codes=(0,)):
        """Returns what a command of ctxfs prints, as bytes."""
        argv = [str(self.program), "--store", str(self.path), *map(str, words)]
        # Texts and pages are the same on each machine.
        environment = {**self.environment, "CTXFS_ADVERTISE": "/ctx"}
        ended = subprocess.run(
            argv, input=content, env=environment, cwd="/", capture_output=True, timeout=COMMAND)
        if ended.returncode not in codes:
            raise Failed(
                f"{' '.join(argv)[:300]}: exit {ended.returncode}: {ended.stderr.decode(errors='replace')[-600:]}"
            )
        return ended.stdout

    def put(self, conversation, call, content, tool="shell/exec", **said):
        """Stores an output. Returns what the model is given."""
        words = [word for name, value in said.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        content = content if isinstance(content, bytes) else content.encode()
        return self.ctxfs("put", "-c", conversation, "--call", call, "--tool", tool, *words, content=content).decode(
            errors="replace")

    def run(self, conversation, name, script, code=0, pty=True):
        """Stores the log of a command of the shell. Returns what the model is given."""
        words = ["--pty"] if pty else []
        argv = ["run", "-c", conversation, "--id", name, *words, "--", "sh", "-c", script]
        return self.ctxfs(*argv, codes=(code,)).decode(errors="replace")

    def say(self, conversation, *messages):
        """Appends messages to the log."""
        lines = "".join(json.dumps(message) + "\n" for message in messages)
        self.ctxfs("log", "append", conversation, content=lines.encode())

    def json(self, *words):
        return json.loads(self.ctxfs(*words, "--json"))

    def view(self, path):
        return self.ctxfs("view", path).decode(errors="replace")

    def meta(self, path):
        return json.loads(self.view(f"{path}.meta.json"))

    @contextlib.contextmanager
    def mounted(self, name="mount"):
        """Mounts the store. Returns the mountpoint."""
        point = self.place / name
        point.mkdir()
        argv = [self.program, "mount", point, "--foreground", "--store", self.path]
        silent = dict.fromkeys(["stdin", "stdout", "stderr"], subprocess.DEVNULL)
        server = subprocess.Popen([str(word) for word in argv], env=self.environment, start_new_session=True, **silent)
        try:
            self.wait_for(point, server)
            yield point
        finally:
            self.unmount(point, server)

    def wait_for(self, point, server):
        until = time.monotonic() + COMMAND
        while not os.path.ismount(point):
            if server.poll() is not None or time.monotonic() > until:
                raise Failed(f"the store cannot be mounted at {point}: `{self.program} doctor` says why")
            time.sleep(0.02)

    def unmount(self, point, server):
        subprocess.run([self.program, "umount", point], env=self.environment, capture_output=True, timeout=COMMAND)
        server.terminate()
        try:
            server.wait(COMMAND)
        finally:
            server.kill()
            if os.path.ismount(point):
                subprocess.run(["umount", "--lazy", point], check=True)
