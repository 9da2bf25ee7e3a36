"""The published SDKs, in exact versions, in a directory that stays between runs."""

import hashlib
import pathlib
import shutil
import sys

from hosts.packages import cache, install, locked

LIST = pathlib.Path(__file__).resolve().parent / "requirements.txt"


def python():
    """Returns a Python that has the SDKs. Fetches them if they are not there."""
    digest = hashlib.sha256(sys.version.encode() + LIST.read_bytes()).hexdigest()[:16]
    place = cache("ctxfs-models", "CTXFS_MODELS_CACHE") / f"sdks-{digest}"
    with locked(place.with_name("lock")):
        if not (place / "whole").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            install([sys.executable, "-m", "venv", place / "venv"], place)
            pip = [place / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
            install([*pip, "-r", LIST], place)
            (place / "whole").touch()
    return place / "venv/bin/python"
