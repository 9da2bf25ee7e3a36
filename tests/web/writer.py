"""Live writers: commands that `ctxfs run` runs, and files that are open in a mount."""

import contextlib
import itertools
import subprocess

from hosts.report import Failed

from web.browser import eventually

# Seconds for the end of a command.
PATIENCE = 30
NUMBERS = itertools.count(1)


def fresh(kind):
    """Returns a name that no other check has."""
    return f"{kind}-{next(NUMBERS)}"


@contextlib.contextmanager
def command(store, conversation, name):
    """Runs a command whose output is what it is told, line by line."""
    argv = [store.program, "run", "--store", store.path, "-c", conversation, "--id", name, "--", "cat"]
    child = subprocess.Popen([str(word) for word in argv], env=store.environment, stdin=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield Writer(store, child, conversation, f"artifacts/terminal/{name}.log")
    finally:
        child.kill()
        child.wait()


class Writer:
    """A command that writes what it is told to the log `path` of its conversation."""

    def __init__(self, store, child, conversation, path):
        self.store, self.child, self.conversation, self.path = store, child, conversation, path
        self.lines = 0

    def write(self, *lines):
        self.child.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self.child.stdin.flush()
        self.lines += len(lines)

    def count(self, number, words="INFO step"):
        """Writes lines with their numbers."""
        self.write(*(f"{words} {self.lines + one}" for one in range(1, number + 1)))

    async def counted(self, number):
        """Writes lines with their numbers, and waits until all are stored."""
        self.count(number)
        await eventually(lambda: self.stored() == self.lines)

    def stored(self):
        """Returns the lines that are in the store."""
        file = self.store.path / "context" / self.conversation / self.path
        return file.read_bytes().count(b"\n") if file.exists() else 0

    def end(self):
        """Ends the command, so that its log is sealed."""
        self.child.stdin.close()
        if self.child.wait(PATIENCE) != 0:
            raise Failed(f"`ctxfs run` ends with {self.child.returncode}")


@contextlib.contextmanager
def in_mount(mount, conversation, name):
    """Opens a file in a mount for writing, as a tool of a host does. Yields the file."""
    directory = mount / conversation / "artifacts/tool"
    (mount / conversation).mkdir(exist_ok=True)
    with (directory / name).open("w", buffering=1) as file:
        yield file
