"""What the tests of the examples share: a store for each test, and outputs."""

import asyncio
import contextlib
import inspect
import os
import pathlib
import sys
import tempfile
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["PROGRAM"]
LONG = "\n".join(f"line {number}" for number in range(1, 20_001)) + "\nERROR: the real reason \N{EURO SIGN}\n"
SHORT = "all is well\n"

sys.path.insert(0, str(ROOT / "examples"))


@contextlib.contextmanager
def store(has_ctxfs=True):
    """Enters a directory with a store of its own, and the program on the PATH or not."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="ctxfs-examples-") as dir:
        dir = pathlib.Path(dir)
        (dir / "bin").mkdir()
        if has_ctxfs:
            (dir / "bin/ctxfs").symlink_to(PROGRAM)
        os.environ.update(PATH=f"{dir}/bin:/usr/bin:/bin", CTXFS_STORE=f"{dir}/store", XDG_STATE_HOME=f"{dir}/state")
        try:
            yield dir
        finally:
            os.environ.clear()
            os.environ.update(before)


def outputs(dir):
    """Returns the stored outputs: conversation, name and text of each."""
    found = sorted((dir / "store").glob("context/*/artifacts/tool/*"))
    return [(path.parts[-4], path.name, path.read_text()) for path in found]


def assert_stand_in(text, tool):
    assert text.startswith("[ctxfs] "), text[:200]
    assert f"tool: {tool}" in text, text[:400]
    assert "ERROR: the real reason" in text and len(text) < 8192, text


def run(tests):
    """Runs the functions whose names begin with `test_`. Prints a line for each."""
    for name, test in tests.items():
        if not name.startswith("test_"):
            continue
        try:
            result = test()
            if inspect.iscoroutine(result):
                asyncio.run(result)
            print(f"ok {name}")
        except BaseException:
            traceback.print_exc()
            print(f"FAILED {name}")
