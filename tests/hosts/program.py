"""The program under test."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def program():
    """Returns ctxfs: as $PROGRAM says, or else the release build, which is made first."""
    given = os.environ.get("PROGRAM")
    if given:
        return pathlib.Path(given).resolve()
    subprocess.run(["cargo", "build", "--locked", "--release", "--quiet"], cwd=ROOT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release/ctxfs"
