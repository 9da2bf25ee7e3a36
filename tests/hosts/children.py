"""The processes of a run. All of them end with it: also those that a host leaves behind."""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass

PR_SET_CHILD_SUBREAPER = 36
# Seconds for a process that was asked to end.
PATIENCE = 10


@dataclass
class Ended:
    """A program that has ended, and what it printed."""

    code: int
    stdout: str
    stderr: str

    def __str__(self):
        return f"exit {self.code}: {(self.stdout + self.stderr).strip()[-600:]}"


class TooLong(Exception):
    """A program did not end in time."""


def adopt():
    """Makes this process the parent of all that its children leave behind."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run(argv, seconds, **options):
    """Runs a program to its end, and ends what it leaves behind."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        options = {"stdin": subprocess.DEVNULL, "start_new_session": True, **options}
        known = descendants()
        child = subprocess.Popen([str(word) for word in argv], stdout=out, stderr=err, **options)
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            said = Ended(-1, text_of(out), text_of(err))
            raise TooLong(f"{os.path.basename(argv[0])} did not end within {seconds} s: {said}") from None
        finally:
            end_all(except_for=known)
        return Ended(code, text_of(out), text_of(err))


def text_of(file):
    file.seek(0)
    return file.read().decode(errors="replace")


def descendants():
    """Returns the processes that come from this one, as pairs of id and start."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            parents[int(stat.parent.name)] = (int(fields[1]), fields[19])
    found, added = set(), {os.getpid()}
    while added:
        added = {pid for pid, (parent, _) in parents.items() if parent in added}
        found |= {(pid, parents[pid][1]) for pid in added}
    return found


def end_all(except_for=frozenset()):
    """Ends all processes that come from this one."""
    until = time.monotonic() + PATIENCE
    how = signal.SIGTERM
    while left := descendants() - except_for:
        for pid, _ in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
        reap(left)
        time.sleep(0.02)
        if time.monotonic() > until - PATIENCE / 2:
            how = signal.SIGKILL
        if time.monotonic() > until:
            raise TooLong(f"processes that do not end: {', '.join(named(pid) for pid, _ in left)}")


def named(pid):
    with contextlib.suppress(OSError):
        return f"{pid} {pathlib.Path(f'/proc/{pid}/stat').read_text()[:60]}"
    return str(pid)


def reap(left):
    for pid, _ in left:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
