"""The published packages, in exact versions, in a directory that stays between runs."""

import fcntl
import hashlib
import os
import pathlib
import shutil
import sys

from hosts import children

HERE = pathlib.Path(__file__).resolve().parent
# Seconds for all packages of one registry.
SECONDS = 240


class NoPackages(Exception):
    """The packages cannot be had."""


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


def cache():
    given = os.environ.get("CTXFS_MCP_CACHE")
    if given:
        return pathlib.Path(given).absolute()
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "ctxfs-mcp"


def fetched(kind, files, install):
    """Returns the directory with the packages that `files` name."""
    digest = hashlib.sha256(sys.version.encode())
    for file in files:
        digest.update(file.read_bytes())
    place = cache() / f"{kind}-{digest.hexdigest()[:16]}"
    place.parent.mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "whole").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            for file in files:
                shutil.copy(file, place)
            install(place)
            (place / "whole").touch()
    return place


def install_npm(place):
    argv = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    must_run([*argv, f"--prefix={place}"], place)


def install_python(place):
    must_run([sys.executable, "-m", "venv", place / "venv"], place)
    argv = [place / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    must_run([*argv, "-r", place / "requirements.txt"], place)


def must_run(argv, place):
    try:
        ended = children.run(argv, SECONDS, cwd=place)
    except (OSError, children.TooLong) as error:
        raise NoPackages(f"{argv[0]}: {error}") from None
    if ended.code != 0:
        raise NoPackages(f"{argv[0]}: {ended}")
