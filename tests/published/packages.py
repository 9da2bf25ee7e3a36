"""The published packages, in exact versions, in a directory that stays between runs."""

import pathlib

from hosts.packages import cache, install, install_python, installed

HERE = pathlib.Path(__file__).resolve().parent


class Packages:
    """The directories of the packages."""

    def __init__(self):
        self.npm = self.python = None

    def fetch(self):
        """Fetches what is not there."""
        home = cache("ctxfs-mcp", "CTXFS_MCP_CACHE")
        npm = [HERE / "npm/package.json", HERE / "npm/package-lock.json"]
        self.npm = installed(home, "npm", npm, install_npm)
        self.python = installed(home, "python", [HERE / "requirements.txt"], install_python)

    def node(self, path):
        return self.npm / "node_modules" / path

    def server(self, name):
        """Returns the script of a server for Node."""
        return self.node(f"@modelcontextprotocol/server-{name}/dist/index.js")

    def program(self, name):
        """Returns a program of the Python packages."""
        return self.python / "venv/bin" / name


def install_npm(place):
    argv = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    install([*argv, f"--prefix={place}"], place)
