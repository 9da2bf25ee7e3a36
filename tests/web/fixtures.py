"""The conversations that the checks look at."""

import json
import os

from web import texts

# The conversation of most checks, and the paths of its outputs.
MAIN = "checkout-fails"
LOG = "artifacts/tool/log.txt"
ISSUES = "artifacts/tool/issues.json"
LONG = "artifacts/tool/long.txt"
SHORT = "artifacts/tool/short.txt"
BIG = "artifacts/tool/big.txt"
IMAGE = "artifacts/tool/plot.png"
BINARY = "artifacts/tool/a.out"
PAINTED = "artifacts/terminal/paint.log"
OUTPUTS = [LOG, ISSUES, LONG, SHORT, BIG, IMAGE, BINARY, PAINTED]
FAILED = [LOG, PAINTED]
# What a search for both errors finds them in: the answer and what the model was given have one, too.
NAMING_ERRORS = sorted([*FAILED, *["history/messages.jsonl"] * 3])
QUESTION = "Why does the checkout fail?\nLook at the whole log, please."
ANSWER = "The ledger is locked by pid 4431.\n\nEnd that process, then settle batch 7741 again."
# A conversation of many messages, and those of a page.
TALK, TALK_MESSAGES = "long-talk", 130
# Other conversations, the newest last: names, calls, exit codes.
OTHERS = [("invoice-export", 2, 0), ("nightly-backup", 3, 0), ("deploy-staging", 2, 2)]
# Conversations of the large store.
MANY = 10_000


def still(store):
    """Fills the store that no check changes. Returns what the model was given, by the path of the output."""
    for name, calls, code in OTHERS[:-1]:
        other(store, name, calls, code)
    talk(store)
    given = main(store)
    other(store, *OTHERS[-1])
    return given


def other(store, name, calls, code):
    store.say(name, {"role": "user", "content": f"Do the work of {name}."})
    for number in range(calls):
        failed = code if number == calls - 1 else 0
        lines = "".join(f"{name} row {one} of call {number}\n" for one in range(400))
        store.put(name, f"call-{number}", lines + (f"error: {name} was refused\n" if failed else ""), exit_code=failed)


def talk(store):
    roles = ("user", "assistant")
    store.say(TALK, *({"role": roles[number % 2], "content": f"message number {number}"}
                      for number in range(TALK_MESSAGES)))


def main(store):
    given = {}
    store.say(MAIN, {"role": "system", "content": "You mend the shop."}, {"role": "user", "content": QUESTION})
    turn(store, given, LOG, texts.log(), "shell/exec", {"command": "cargo test"}, exit_code=101)
    turn(store, given, ISSUES, texts.issues(), "list_issues", {"state": "open"}, server="github")
    turn(store, given, LONG, texts.long_line(), "shell/exec", {"command": "cat min.js"}, exit_code=0)
    turn(store, given, SHORT, "all 12 services are up\n", "shell/exec", {"command": "status"}, exit_code=0)
    turn(store, given, BIG, texts.big(), "shell/exec", {"command": "journalctl"}, exit_code=0)
    store.run(MAIN, "paint", texts.PAINTED, code=3)
    with store.mounted() as mount:
        (mount / MAIN / IMAGE).write_bytes(texts.image())
        (mount / MAIN / BINARY).write_bytes(texts.binary())
    store.say(MAIN, {"role": "assistant", "content": ANSWER})
    return given


def turn(store, given, path, content, tool, arguments, **said):
    """A call of a tool, its output, and both in the log of messages as a host writes them."""
    call = path.rsplit("/", 1)[1].split(".")[0]
    arguments = json.dumps(arguments)
    store.say(MAIN, {"role": "assistant", "content": None, "tool_calls": [
        {"id": call, "type": "function", "function": {"name": tool, "arguments": arguments}}]})
    given[path] = store.put(MAIN, call, content, tool, args=arguments, **said)
    store.say(MAIN, {"role": "tool", "tool_call_id": call, "content": given[path]})


def many(store):
    """Fills the large store: one conversation by the program, the others as its copies."""
    store.put("agent-00000", "call", texts.issues(12), tool="list_issues")
    copies(store.path / "context/agent-00000", (f"agent-{number:05}" for number in range(1, MANY)))


def copies(conversation, names):
    """Copies a conversation, with the times of its files, by which their records know them."""
    paths = sorted(conversation.rglob("*"))
    directories = [path.relative_to(conversation) for path in paths if path.is_dir()]
    files = [
        (path.relative_to(conversation), path.read_bytes(), path.stat().st_mtime_ns) for path in paths if path.is_file()
    ]
    for name in names:
        copy = conversation.with_name(name)
        for directory in [".", *directories]:
            os.mkdir(copy / directory, 0o700)
        for path, content, time in files:
            with open(copy / path, "wb") as file:
                file.write(content)
            os.utime(copy / path, ns=(time, time))
