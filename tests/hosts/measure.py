"""The table of docs/HOSTS.md: the same calls of each host without ctxfs and with it."""

import json
import statistics
from dataclasses import dataclass

from hosts import expected, outputs
from hosts.machine import Machine
from hosts.scripted_model import Said

# Calls of one kind, of which the median counts.
CALLS = 6

HEAD = """\
| host | bytes of outputs | kept | to the model, without | with | short call | added | 200 KB call | added |
|---|---|---|---|---|---|---|---|---|"""


@dataclass
class Measured:
    """One run: the bytes of results that the model was sent, the bytes stored, the median seconds of calls."""

    sent: int
    kept: int
    short: float
    long: float


def table(kinds, program, model):
    """Yields the lines of the table."""
    yield HEAD
    for kind in kinds:
        made = sum(len(output.text) for output in calls(kind))
        without, with_it = (measured(kind, program, model, installed) for installed in (False, True))
        cells = [
            kind.name, f"{made:,}", f"{100 * with_it.kept / made:.0f} %", f"{without.sent:,}", f"{with_it.sent:,}",
            milliseconds(without.short), milliseconds(with_it.short - without.short),
            milliseconds(without.long), milliseconds(with_it.long - without.long),
        ]
        yield f"| {' | '.join(cells)} |"


def measured(kind, program, model, installed):
    with Machine(program) as machine:
        profile = kind(machine, model)
        profile.configure()
        machine.mount_store()
        if installed:
            machine.ctxfs("install", kind.name)
        first = profile.play(*[Said([output.call]) for output in calls(profile)])
        kept = sum(len(output.text) for output in calls(profile) if expected.is_stored(output, machine))
        # No two alike: a host may take these for a loop.
        files = ["short.txt", "build.log"] * CALLS
        timed = [profile.shell(f"cat {file} # {number}") for number, file in enumerate(files)]
        turns = profile.play(*[Said([call]) for call in timed]).turns
        seconds = [statistics.median(turn.seconds for turn in turns[at + 2::2]) for at in (0, 1)]
        return Measured(sum(sent(turn) for turn in first.turns), kept, *seconds)


def calls(profile):
    return expected.of(profile)


def sent(turn):
    """Returns the bytes of a result, without its images."""
    return len(json.dumps(turn.result).replace(outputs.picture(), ""))


def milliseconds(seconds):
    return f"{1000 * seconds:.0f} ms"
