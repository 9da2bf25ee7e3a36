"""Puts questions to real outputs, in three ways, and prints what each way answers and costs."""

import json
import pathlib
import tomllib

from hosts.report import Failed, say

from models import llama
from models.asking import Store, pasted, tokens
from models.outputs import output
from models.relay import Relay

HERE = pathlib.Path(__file__).resolve().parent
# Tokens of the context that the program is told of, and of the one that the model has, for what is pasted whole.
CONTEXT, ALL = 8192, 16_384
# Bytes of the head and of the tail, as a host keeps them that cuts.
END = 4096
WAYS = ["read-grep", "head and tail", "all of it"]


def cases():
    """Yields each output with its kind, and each question with what its answer holds."""
    for entry in tomllib.loads((HERE / "questions.toml").read_text())["output"]:
        for question in entry["question"]:
            yield entry["name"], entry["kind"], question["ask"], question["holds"]


def ask(way, store, url, name, question):
    """Asks one question in one way. `None` if the output does not fit."""
    content = output(name)
    if way == "read-grep":
        with Relay(url) as relay:
            store.set(relay.url, CONTEXT)
            told = store.ask(store.put(name, content), question, "read-grep")
        if told.tokens != relay.usage:
            raise Failed(f"{told.tokens} tokens are logged, and the endpoint has counted {relay.usage}")
        return told
    text = content.decode(errors="replace")
    if way == "head and tail":
        left = len(content) - 2 * END
        text = f"{text[:END]}\n[... {left} bytes are left out ...]\n{text[-END:]}"
    elif len(content) > 8 * ALL:
        return None
    return pasted(url, text, question)


def record(way, program, directory, url, case):
    name, kind, question, holds = case
    store = Store(program, directory)
    entry = {"way": way, "output": name, "kind": kind, "question": question, "bytes": len(output(name))}
    try:
        told = ask(way, store, url, name, question)
    except Failed as error:
        return entry | {"error": str(error)}
    if told is None:
        whole = tokens(url, output(name).decode(errors="replace"))
        return entry | {"tokens": whole, "fits": False}
    holds = any(part.lower() in told.text.lower() for part in holds)
    cited, invented = "\nLines: " in f"\n{told.text}", told.text.count("(not found in the output)")
    return entry | {"holds": holds, "tokens": sum(told.tokens), "seconds": round(told.seconds, 1), "found": told.found,
                    "cited": cited, "invented": invented, "text": told.text[:2000]}


def known(results):
    """Returns the answers that are there, by way, output and question."""
    lines = results.read_text().splitlines() if results.exists() else []
    entries = [json.loads(line) for line in lines]
    return {(entry["way"], entry["output"], entry["question"]): entry for entry in entries}


def main(program, directory, results):
    """Asks what the file `results` does not have yet: it has a line of JSON for each answer."""
    results = pathlib.Path(results)
    found = known(results)
    # Questions about one output follow one another, so that the server reads a pasted text once.
    missing = [(way, case) for way in WAYS for case in cases() if (way, case[0], case[2]) not in found]
    if missing:
        with llama.served(ALL) as url, results.open("a") as log:
            for way, case in missing:
                entry = record(way, program, directory, url, case)
                log.write(json.dumps(entry) + "\n")
                log.flush()
                say(summary(entry))
    say(table(known(results).values()))
    return 0


def summary(entry):
    told = "does not fit" if entry.get("fits") is False else entry.get("error") or (
        f"{'holds' if entry['holds'] else 'no'}, {entry['tokens']} tokens, {entry['seconds']} s")
    return f"{entry['way']}: {entry['output']}: {entry['question']} {told}"


def table(entries):
    """Returns a table of the ways, and one of the kinds of outputs, in Markdown."""
    lines = ["| way | asked | hold the answer | tokens a question | tokens for each right answer | seconds, median |",
             "|---|---|---|---|---|---|"]
    for way in WAYS:
        asked = [entry for entry in entries if entry["way"] == way and "holds" in entry]
        if asked:
            lines.append(row(way, asked))
    lines += ["", f"| kind | bytes | {' | '.join(WAYS)} |", "|---|---|" + "---|" * len(WAYS)]
    for name in dict.fromkeys(entry["output"] for entry in entries):
        of = [entry for entry in entries if entry["output"] == name]
        cells = [cell([entry for entry in of if entry["way"] == way]) for way in WAYS]
        lines.append(f"| {of[0]['kind']} | {of[0]['bytes']:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def row(way, asked):
    right = sum(entry["holds"] for entry in asked)
    spent = sum(entry["tokens"] for entry in asked)
    seconds = sorted(entry["seconds"] for entry in asked)[len(asked) // 2]
    each = f"{spent // right:,}" if right else "none"
    return f"| {way} | {len(asked)} | {right} | {spent // len(asked):,} | {each} | {seconds} |"


def cell(asked):
    """The right answers of those that were asked, and the tokens of a question."""
    if not asked:
        return ""
    if asked[0].get("fits") is False:
        return f"{asked[0]['tokens']:,} tokens do not fit"
    told = [entry for entry in asked if "holds" in entry]
    if not told:
        return "failed"
    tokens = sum(entry["tokens"] for entry in told) // len(told)
    return f"{sum(entry['holds'] for entry in told)} of {len(asked)}, {tokens:,} tokens"
