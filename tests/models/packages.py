"""The published SDKs, in exact versions, in a directory that stays between runs."""

import pathlib

from hosts.packages import cache, install_python, installed

LIST = pathlib.Path(__file__).resolve().parent / "requirements.txt"


def python():
    """Returns a Python that has the SDKs. Fetches them if they are not there."""
    home = cache("ctxfs-models", "CTXFS_MODELS_CACHE")
    return installed(home, "sdks", [LIST], install_python) / "venv/bin/python"
