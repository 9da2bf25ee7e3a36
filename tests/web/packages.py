"""The driver of the browser and the rules of accessibility, in exact versions, in a directory that stays between runs."""

import pathlib

from hosts.packages import cache, install_python, installed
from published.packages import install_npm

HERE = pathlib.Path(__file__).resolve().parent


def fetch():
    """Returns a Python that has the driver, and the script of axe-core. Fetches what is not there."""
    home = cache("ctxfs-web", "CTXFS_WEB_CACHE")
    python = installed(home, "python", [HERE / "requirements.txt"], install_python)
    npm = installed(home, "npm", [HERE / "npm/package.json", HERE / "npm/package-lock.json"], install_npm)
    return python / "venv/bin/python", npm / "node_modules/axe-core/axe.min.js"
