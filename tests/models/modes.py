"""Runs every mode with a real model, and compares what is counted."""

import json
import signal
import subprocess
import time

from hosts.report import Failed, Report

from models import llama
from models.asking import Store, tokens
from models.outputs import output
from models.questions import cases
from models.relay import Relay

# Tokens of the context that the model has.
CONTEXT = 4096
NEEDLE = "ERROR worker-3 cannot open /var/lib/app/spool.db: disk quota exceeded"
QUESTION = "Which file can worker-3 not open, and why? Copy the whole line."
# What a chunk leaves free of a context, in percent, as the model may count more tokens than are estimated.
FREE_PERCENT = 30


def log(lines):
    """A log of so many lines, with the needle in the middle."""
    text = [f"INFO worker-{number % 7} handled request {number} in 12 ms\n" for number in range(lines)]
    text.insert(lines // 2, NEEDLE + "\n")
    return "".join(text).encode()


class Modes:
    """The checks. Each method of `CHECKS` returns a note for the report, or fails."""

    def __init__(self, program, directory, url):
        self.program, self.directory, self.url = program, directory, url

    def ask(self, lines, mode, context=CONTEXT, tools="none", more=""):
        """Asks about a log. Returns the answer and the relay that counted, and checks that both count the same."""
        store = Store(self.program, self.directory)
        with Relay(self.url) as relay:
            store.set(relay.url, context, tools, more)
            path = store.put("log", log(lines))
            told = store.ask(path, QUESTION, mode)
            self.check_costs(store, told, relay)
            self.check_kept(store, path, mode, told, relay)
        return told, relay

    def check_costs(self, store, told, relay):
        history = store.directory / "context/c7/history/extractions.jsonl"
        calls = [call for line in history.read_text().splitlines() for call in json.loads(line)["calls"]]
        logged = (sum(call["input"] for call in calls), sum(call["output"] for call in calls))
        shown = json.loads(store.run("stats", "--json", "c7"))["total"]["questions"]
        counted = (shown["input"], shown["output"])
        if not told.tokens == logged == counted == relay.usage:
            raise Failed(f"tokens: told {told.tokens}, logged {logged}, in stats {counted}, at the endpoint {relay.usage}")

    def check_kept(self, store, path, mode, told, relay):
        """The same question once more asks no model."""
        before = relay.requests
        again = store.ask(path, QUESTION, mode)
        if told.found is not None and (relay.requests, again.text) != (before, told.text):
            raise Failed(f"{relay.requests - before} more requests, and the text {again.text}")

    def holds(self, told, mode):
        if told.mode != mode or "spool.db" not in told.text:
            raise Failed(f"{told.mode}: {told.text[:300]} {told.warnings}")
        return f"{sum(told.tokens)} tokens, {told.seconds:.0f} s"

    def auto_reads_all_of_a_short_output(self):
        return self.holds(self.ask(20, "auto")[0], "full-chunked")

    def auto_looks_into_a_long_output(self):
        return self.holds(self.ask(4000, "auto")[0], "read-grep")

    def chunks_are_read_and_put_together(self):
        told, relay = self.ask(60, "full-chunked", context=1100)
        if relay.requests < 4:
            raise Failed(f"{relay.requests} requests")
        return self.holds(told, "full-chunked") + f", {relay.requests} requests"

    def a_context_that_is_smaller_than_told_is_read_in_halves(self):
        told, relay = self.ask(400, "full-chunked", context=16_384)
        if relay.requests < 3:
            raise Failed(f"{relay.requests} requests")
        return self.holds(told, "full-chunked") + f", {relay.requests} requests"

    def a_model_that_calls_no_tool_looks_by_a_schema(self):
        return self.holds(self.ask(4000, "read-grep", tools="auto")[0], "read-grep")

    def nobody_is_asked_in_truncate(self):
        told, relay = self.ask(4000, "truncate")
        if relay.requests:
            raise Failed(f"{relay.requests} requests")
        return self.holds(told, "truncate")

    def a_question_that_costs_too_much_is_not_asked(self):
        told, relay = self.ask(4000, "auto", more="max_tokens_per_question = 300")
        if relay.usage[1] or told.mode != "truncate" or not told.warnings:
            raise Failed(f"{told.mode}, {relay.usage}, {told.warnings}")
        return told.warnings[0]

    def an_interrupt_ends_the_question(self):
        store = Store(self.program, self.directory)
        with Relay(self.url) as relay:
            store.set(relay.url, CONTEXT)
            path = store.put("log", log(60))
            asking = subprocess.Popen([self.program, "--store", store.directory, "extract", path, QUESTION],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            end = time.monotonic() + 60
            while not relay.requests and time.monotonic() < end:
                time.sleep(0.05)
            asking.send_signal(signal.SIGINT)
            began = time.monotonic()
            asking.communicate(timeout=60)
        if asking.returncode != 130:
            raise Failed(f"exit code {asking.returncode}")
        return f"{time.monotonic() - began:.1f} s"


CHECKS = [
    Modes.auto_reads_all_of_a_short_output,
    Modes.auto_looks_into_a_long_output,
    Modes.chunks_are_read_and_put_together,
    Modes.a_context_that_is_smaller_than_told_is_read_in_halves,
    Modes.a_model_that_calls_no_tool_looks_by_a_schema,
    Modes.nobody_is_asked_in_truncate,
    Modes.a_question_that_costs_too_much_is_not_asked,
    Modes.an_interrupt_ends_the_question,
]


def estimate(store, url, name):
    """Compares the tokens that a summary tells with those of the model."""
    content = output(name)[: 1 << 18]
    path = store.put(name, content)
    told = json.loads(store.run("view", f"{path}.meta.json"))["analysis"]["tokens"]
    real = tokens(url, content.decode(errors="replace"))
    wrong = 100 * (told - real) / real
    if wrong < -FREE_PERCENT:
        raise Failed(f"{told} tokens are estimated, {real} there are: {wrong:+.1f} %")
    return f"{told} of {real}: {wrong:+.1f} %"


def main(program, directory):
    report = Report()
    with llama.served(CONTEXT) as url:
        modes = Modes(program, directory, url)
        for check in CHECKS:
            attempt(report, "modes", check.__name__.replace("_", " "), lambda check=check: check(modes))
        store = Store(program, directory)
        for name in dict.fromkeys(case[0] for case in cases()):
            attempt(report, "tokens", name, lambda name=name: estimate(store, url, name))
    return report.end()


def attempt(report, part, what, check):
    try:
        report.ok(part, what, check())
    except (Failed, subprocess.SubprocessError, KeyError) as error:
        report.not_ok(part, what, f"{type(error).__name__}: {error}")
