"""The outputs of tools whose bytes the checks know: a log, a build that fails, a short word, a picture."""

import base64
import json
import struct
import zlib

LOG_BYTES = 200_000
SERVER_BYTES = 300_000
# Only at the end of the output of a failing command: what a model needs to see of it.
REASON = "error: the linker found no symbol `alpha_beta`"
EXIT_CODE = 3
SHORT = "just a word\n"


def log(size):
    """Returns a log of about `size` bytes, whole lines, alike in every run."""
    lines, length, number = [], 0, 0
    while length < size:
        number += 1
        line = f"12:{number // 60 % 60:02}:{number % 60:02} INFO request {number} took {number * 7919 % 907} ms\n"
        lines.append(line)
        length += len(line)
    return "".join(lines)


def failing():
    """Returns the output of a command that fails, with the reason on its last line."""
    return log(LOG_BYTES) + REASON + "\n"


def rows(size):
    """Returns the text that a server answers to `size`, of about so many bytes: rows without a last newline."""
    lines = [f"row {number:07} value {number * 7919 % 10007:05}" for number in range(size // 24)]
    return "\n".join([f"about {size} bytes", *lines])


def structured(size):
    """Returns a result with structure, as the object and as the text that hosts make of it."""
    content = {"rows": rows(size).split("\n")}
    return content, json.dumps(content, separators=(",", ":"))


def picture():
    """Returns a PNG of one red pixel, in base64."""
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0\xff\0\0")), (b"IEND", b"")]
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in parts)
    return base64.b64encode(png).decode()


def halves(text):
    """Returns a text in two parts that are cut between lines, which a host joins by a newline."""
    middle = text.index("\n", len(text) // 2)
    return [text[:middle], text[middle + 1:]]
