"""The published packages of the hosts, in exact versions, in a directory that stays between runs."""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import platform
import shutil
import sys

from hosts import children

# Seconds for one installation: the largest package has 400 MB.
SECONDS = 240
CPU = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


class NoPackage(Exception):
    """A package cannot be had."""


def cache(name, variable):
    """Returns the directory `name` in the user's cache, or the one that `variable` names."""
    given = os.environ.get(variable)
    if given:
        return pathlib.Path(given).absolute()
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / name


def fetched(package, version):
    """Returns the `node_modules` with a package, which is fetched if it is not there."""
    place = cache("ctxfs-hosts", "CTXFS_HOSTS_CACHE") / f"{package.strip('@').replace('/', '-')}-{version}"
    with locked(place.with_name("lock")):
        if not place.exists():
            fetch(f"{package}@{version}", place)
    return place / "node_modules"


def fetch(wanted, place):
    # Under another name until it is whole.
    part = place.with_name(f"{place.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    argv = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    # Not in the cache of the user: tarballs of this size would only take room there.
    argv += [f"--cache={part / 'npm'}", f"--prefix={part}", "--save-exact", wanted]
    install(argv, part)
    shutil.rmtree(part / "npm", ignore_errors=True)
    part.rename(place)


def installed(home, kind, lists, fetch):
    """Returns the directory below `home` with the packages that the files `lists` name. What is not there, `fetch`
    installs into it."""
    digest = hashlib.sha256(sys.version.encode())
    for file in lists:
        digest.update(file.read_bytes())
    place = home / f"{kind}-{digest.hexdigest()[:16]}"
    with locked(place.with_name("lock")):
        if not (place / "whole").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            for file in lists:
                shutil.copy(file, place)
            fetch(place)
            (place / "whole").touch()
    return place


def install_python(place, names="requirements.txt"):
    """Installs the Python packages that the file `names` lists into `venv`, both in `place`."""
    install([sys.executable, "-m", "venv", place / "venv"], place)
    argv = [place / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    install([*argv, "-r", place / names], place)


def install(argv, place):
    """Runs an installer in `place`."""
    try:
        ended = children.run(argv, SECONDS, cwd=place)
    except (OSError, children.TooLong) as error:
        raise NoPackage(f"{' '.join(map(str, argv))}: {error}") from None
    if ended.code != 0:
        raise NoPackage(f"{' '.join(map(str, argv))}: {ended}")


@contextlib.contextmanager
def locked(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
