"""A machine for one host: a home, a project, a store and its mount, apart from those of the user."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from hosts import children, outputs
from hosts.report import Failed

# Seconds for a command of ctxfs.
COMMAND = 30


class Machine:
    """Its directories and its mount end with it."""

    def __init__(self, program, parent=None):
        self.program = program
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="ctxfs-hosts-", dir=parent))
        self.home, self.project = self.base / "home", self.base / "project"
        self.mount, self.tmp = self.base / "ctx", self.base / "tmp"
        self.store = self.home / ".local/share/ctxfs"
        self.server, self.digests = None, 0
        for directory in (self.home, self.project, self.mount, self.tmp):
            directory.mkdir()
        subprocess.run(["git", "init", "--quiet", self.project], check=True)
        (self.project / "build.log").write_text(outputs.log(outputs.LOG_BYTES))
        (self.project / "failing.log").write_text(outputs.failing())
        (self.project / "short.txt").write_text(outputs.SHORT)
        (self.project / "pixel.png").write_bytes(base64.b64decode(outputs.picture()))
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "TERM": "xterm", "LANG": "C.UTF-8",
            "SHELL": "/bin/bash", "TMPDIR": str(self.tmp),
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.unmount()
        shutil.rmtree(self.base)

    def mount_store(self):
        """Mounts the store, as a user does before the host starts."""
        argv = [self.program, "mount", self.mount, "--foreground"]
        silent = dict.fromkeys(["stdin", "stdout", "stderr"], subprocess.DEVNULL)
        self.server = subprocess.Popen(argv, env=self.environment, start_new_session=True, **silent)
        until = time.monotonic() + COMMAND
        while not os.path.ismount(self.mount):
            if self.server.poll() is not None or time.monotonic() > until:
                raise Failed(f"the store cannot be mounted at {self.mount}: `{self.program} doctor` says why")
            time.sleep(0.02)

    def unmount(self):
        if self.server is None:
            return
        subprocess.run([self.program, "umount", self.mount], env=self.environment, capture_output=True, timeout=COMMAND)
        self.server.terminate()
        self.server.wait(COMMAND)
        if os.path.ismount(self.mount):
            subprocess.run(["umount", "--lazy", self.mount], check=True)
        self.server = None

    def ctxfs(self, *words):
        """Returns what a command of ctxfs prints; it must succeed."""
        ended = children.run([self.program, *words], COMMAND, env=self.environment, cwd=self.project)
        if ended.code != 0:
            raise Failed(f"ctxfs {' '.join(map(str, words))}: {ended}")
        return ended.stdout

    def break_store(self):
        """Makes the store one that nobody can write, not even root: a file is in its place."""
        shutil.rmtree(self.store, ignore_errors=True)
        self.store.parent.mkdir(parents=True, exist_ok=True)
        self.store.write_text("no directory\n")

    def write(self, name, content):
        """Writes a file below the home: a text, or JSON."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2) + "\n")

    def settings(self):
        """Returns the bytes of all files of the home but those of ctxfs."""
        files = [path for path in self.home.rglob("*") if path.is_file() and ".local" not in path.parts]
        return {str(path.relative_to(self.home)): path.read_bytes() for path in files}

    def stored(self):
        """Returns the stored outputs: their paths in the tree, and their files."""
        root = self.store / "context"
        files = [path for path in root.glob("*/artifacts/*/*") if path.is_file()]
        return {str(path.relative_to(root)): path for path in files}

    def messages(self):
        """Returns the messages in the logs of all conversations."""
        logs = (self.store / "context").glob("*/history/messages.jsonl")
        return [json.loads(line) for log in logs for line in log.read_text().splitlines()]

    def meta(self, artifact):
        """Returns what ctxfs knows of an output."""
        return json.loads(self.ctxfs("view", f"{artifact}.meta.json"))

    def digest_of(self, content):
        """Returns the digest that ctxfs computes of these bytes, in a store of its own."""
        self.digests += 1
        file, name = self.base / "content", f"n{self.digests}"
        file.write_bytes(content)
        store = ["--store", self.base / "digests"]
        with file.open("rb") as stdin:
            argv = [self.program, "put", *store, "--conversation", name, "--call", name, "--format", "ref"]
            children.run(argv, COMMAND, env=self.environment, stdin=stdin)
        meta = json.loads(self.ctxfs("view", *store, f"{name}/artifacts/tool/{name}.meta.json"))
        return meta["analysis"]["digest"]

    def outcomes(self):
        """Returns the outcomes of all calls of the hook so far."""
        log = self.home / ".local/state/ctxfs/hook.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line.split(" ", 2)[2] for line in lines]
