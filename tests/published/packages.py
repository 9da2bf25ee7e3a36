"""The published packages, in exact versions, in a directory that stays between runs."""

import hashlib
import pathlib
import shutil
import sys

from hosts.packages import cache, install, locked

HERE = pathlib.Path(__file__).resolve().parent


class Packages:
    """The directories of the packages."""

    def __init__(self):
        self.npm = self.python = None

    def fetch(self):
        """Fetches what is not there."""
        self.npm = fetched("npm", [HERE / "npm/package.json", HERE / "npm/package-lock.json"], install_npm)
        self.python = fetched("python", [HERE / "requirements.txt"], install_python)

    def node(self, path):
        return self.npm / "node_modules" / path

    def server(self, name):
        """Returns the script of a server for Node."""
        return self.node(f"@modelcontextprotocol/server-{name}/dist/index.js")

    def program(self, name):
        """Returns a program of the Python packages."""
        return self.python / "venv/bin" / name


def fetched(kind, files, fetch):
    """Returns the directory with the packages that `files` name."""
    digest = hashlib.sha256(sys.version.encode())
    for file in files:
        digest.update(file.read_bytes())
    place = cache("ctxfs-mcp", "CTXFS_MCP_CACHE") / f"{kind}-{digest.hexdigest()[:16]}"
    with locked(place.with_name("lock")):
        if not (place / "whole").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            for file in files:
                shutil.copy(file, place)
            fetch(place)
            (place / "whole").touch()
    return place


def install_npm(place):
    argv = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    install([*argv, f"--prefix={place}"], place)


def install_python(place):
    install([sys.executable, "-m", "venv", place / "venv"], place)
    argv = [place / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    install([*argv, "-r", place / "requirements.txt"], place)
