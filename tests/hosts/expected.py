"""What becomes of one output: what is stored of it, and what the model is sent."""

import json
from dataclasses import dataclass

from hosts import outputs
from hosts.report import Failed

# The most bytes of a stand-in with what a host puts around it.
MOST = 8_000
NOTICE = "[ctxfs] "

# How an output reaches the model: the stand-in instead of it, or the host's own result with the stand-in added.
REPLACED, ADDED = "replaced", "added"


@dataclass
class Output:
    """An output of a step, as the host has it: the name of the check, the call, and the bytes that must be stored."""

    name: str
    call: object
    text: str
    # What a model has to see of it.
    tells: tuple = ()
    picture: bool = False
    # Whether a host puts words of its own around it.
    framed: bool = False


def of(profile):
    """Returns the outputs of a turn, each of which most hosts would cut."""
    end = "\n" if profile.keeps_last_newline else ""
    failing = profile.shell(f"cat failing.log; exit {outputs.EXIT_CODE}")
    reason = (outputs.REASON, f"exit code {outputs.EXIT_CODE}")
    found = [
        Output("command", profile.shell("cat build.log"), outputs.log(outputs.LOG_BYTES).rstrip("\n") + end),
        Output("failing command", failing, outputs.failing().rstrip("\n") + end, reason),
    ]
    if profile.probe(0, "text"):
        found += of_server(profile)
    return found


def of_server(profile):
    size = outputs.SERVER_BYTES
    text, pictures = outputs.rows(size), profile.sends_pictures
    # Of another size than the parts, as the checks find an output by its bytes.
    beside_picture = size * 2 // 5
    parts = profile.joint.join(outputs.halves(outputs.rows(size // 2)))
    structured = outputs.structured(size // 4)[1] if profile.shows_structure else outputs.rows(size // 4)
    return [
        Output("MCP result", profile.probe(size, "text"), text),
        Output("MCP result in parts", profile.probe(size // 2, "blocks"), parts),
        Output("MCP result with structure", profile.probe(size // 4, "structured"), structured, framed=True),
        Output("MCP result with an image", profile.probe(beside_picture, "picture"), outputs.rows(beside_picture), picture=pictures, framed=True),
        Output("MCP error", profile.probe(size // 5, "error"), outputs.rows(size // 5), framed=True),
    ]


def check(output, how, turn, machine):
    """Checks an output, and returns what was found in some words."""
    artifact = stored(output, machine)
    texts = [text for text in strings(turn.body) if NOTICE in text and artifact in text]
    if not texts:
        raise Failed(f"the model was not sent the stand-in of {artifact}, but {shown(turn.result)}")
    result = json.dumps(turn.result)
    size = len(result)
    if output.picture:
        if outputs.picture() not in json.dumps(turn.body):
            raise Failed("the image did not reach the model")
        size -= len(outputs.picture())
    if how == REPLACED and size > MOST:
        raise Failed(f"the model was sent {size} bytes, which is more than {MOST}: {shown(turn.result)}")
    for told in output.tells:
        if not any(told in text for text in texts):
            raise Failed(f"the stand-in does not say `{told}`: {texts[0]}")
    stored_bytes = len(machine.stored()[artifact].read_bytes())
    return f"{stored_bytes} bytes stored, {size} sent, {how}"


def check_left(turn):
    """Checks that the model got the host's own result."""
    if NOTICE in json.dumps(turn.result):
        raise Failed(f"the host takes a stand-in here: {shown(turn.result)}")


def check_missed(turn):
    """Checks that the model got the host's own result, or was told that not all is stored."""
    if NOTICE in json.dumps(turn.result) and "INCOMPLETE" not in json.dumps(turn.result):
        raise Failed(f"the output is not stored, and the stand-in does not say so: {shown(turn.result)}")


def stored(output, machine):
    """Returns the path of the only artifact with the bytes of an output."""
    found = {path: file.read_bytes() for path, file in machine.stored().items()}
    same = [path for path, content in found.items() if is_of(output, content)]
    if len(same) != 1:
        names = ", ".join(f"{path} ({len(content)} bytes)" for path, content in sorted(found.items()))
        raise Failed(f"{len(same)} artifacts have the {len(output.text)} bytes of the output; stored are: {names}")
    digest = machine.digest_of(found[same[0]])
    recorded = machine.meta(same[0])["analysis"]["digest"]
    if recorded != digest:
        raise Failed(f"{same[0]} is recorded with the digest {recorded}, not {digest}")
    return same[0]


def is_stored(output, machine):
    return any(is_of(output, file.read_bytes()) for file in machine.stored().values())


def is_of(output, content):
    """Returns whether these are the bytes of an output. What is framed may be quoted as a string of JSON."""
    wanted = output.text.encode()
    quoted = json.dumps(output.text)[1:-1].encode()
    return content == wanted or output.framed and (wanted in content or quoted in content)


def strings(value):
    """Returns all strings in a JSON value."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in inner for text in strings(part)]


def shown(result):
    text = json.dumps(result)
    return text if len(text) < 500 else f"{len(text)} bytes: {text[:200]} ... {text[-200:]}"
