"""The checks of one host."""

import json

from hosts import children, expected, outputs
from hosts.machine import COMMAND, Machine
from hosts.packages import NoPackage
from hosts.paired import PairedChecks
from hosts.profiles.profile import FORK, NEW, RESUME
from hosts.program import ROOT
from hosts.report import Cannot, Failed
from hosts.scripted_model import Said

POINTERS = "[ctxfs] Outputs of earlier calls are stored whole"
MOST_POINTERS = 1_000
# Words of the description of the skill.
SKILL = "Reads long outputs of commands and tools that ctxfs has stored"
# Words on one line of the log alone.
WANTED = "request 4321 took"


class HostChecks:
    """Plays scenes with a host, and reports what became of each."""

    def __init__(self, kind, program, model, report):
        self.kind, self.program, self.model, self.report = kind, program, model, report
        self.machine = self.profile = self.scene = None

    def run(self):
        if not self.check("package", self.fetch):
            return
        with Machine(self.program) as machine:
            self.begin(machine)
            self.with_store()
        with Machine(self.program) as machine:
            self.begin(machine)
            self.check("a store that cannot be written", self.without_store)
        with Machine(self.program) as machine:
            self.begin(machine)
            self.check("MCP server through the gateway", self.through_gateway)
        with Machine(self.program) as machine:
            self.begin(machine)
            self.check("plug-in", self.plugged_in)
        if self.kind.runs_commands:
            commands = CommandChecks(self)
            self.check("commands that the host shows whole", commands.whole)
            self.check("refused command", commands.refused)
            self.check("a full disk", commands.full_disk)
            pairs = PairedChecks(self)
            self.check("recorded outputs", pairs.outputs)
            self.check("refusals", pairs.refusals)

    def check(self, what, made):
        """Makes a check, and returns whether it passed."""
        try:
            found = made()
        except Cannot as why:
            self.report.cannot(self.kind.name, what, why)
            return True
        except (Failed, NoPackage, children.TooLong) as error:
            self.report.not_ok(self.kind.name, what, error)
            return False
        except Exception as error:  # Another host may still be checked.
            self.report.not_ok(self.kind.name, what, repr(error))
            return False
        self.report.ok(self.kind.name, what, found)
        return True

    def fetch(self):
        self.kind.fetch()
        return f"{self.kind.package} {self.kind.version}"

    def begin(self, machine):
        self.machine, self.profile = machine, self.kind(machine, self.model)
        self.profile.configure()
        self.before = machine.settings()

    def with_store(self):
        self.check("settings after install and remove", self.install_and_remove)
        if not self.check("mount and install", self.mount_and_install):
            return
        if self.check("a turn", self.play_turn):
            self.check("short output", self.short_output)
            self.check("whose session it is", self.described)
            for output, turn in zip(self.outputs, self.scene.turns[1:]):
                self.check(output.name, lambda output=output, turn=turn: self.became(output, turn))
            if not self.profile.probe(0, "text"):
                self.check("MCP results", self.no_server)
            self.check("image", self.picture)
            self.check("reading on in the mount", self.read_on)
        if self.check("a resumed turn with a compaction", self.play_resumed):
            self.check("told at resume", lambda: self.told("resume", self.scene.bodies[:1]))
            self.check("told at compaction", lambda: self.told("compaction", self.scene.since_summary))
            self.check("messages before the compaction", self.messages)
        self.check("told at fork", self.fork)
        self.check("a new start is told nothing", self.new_start)
        self.check("settings after use and remove", self.removed)

    def mount_and_install(self):
        self.machine.mount_store()
        self.machine.ctxfs("install", self.kind.name)
        return f"at {self.machine.mount}"

    def install_and_remove(self):
        self.machine.ctxfs("install", self.kind.name)
        self.installed = self.machine.settings()
        if self.installed == self.before:
            raise Failed("`ctxfs install` changed no file")
        self.machine.ctxfs("install", self.kind.name)
        if self.machine.settings() != self.installed:
            raise Failed("a second `ctxfs install` changed something")
        self.machine.ctxfs("install", self.kind.name, "--remove")
        return self.as_before(self.machine.settings())

    def removed(self):
        self.machine.ctxfs("install", self.kind.name, "--remove")
        names = [name for name, content in self.installed.items() if self.before.get(name) != content]
        now = self.machine.settings()
        return self.as_before({**self.before, **{name: now[name] for name in names if name in now}})

    def as_before(self, now):
        names = sorted(name for name in {*now, *self.before} if now.get(name) != self.before.get(name))
        if names:
            raise Failed(f"other bytes than before: {', '.join(names)}")
        return f"{len(self.before)} files as before"

    def play_turn(self):
        self.outputs = expected.of(self.profile)
        calls = [self.profile.shell("cat short.txt"), *(output.call for output in self.outputs)]
        calls += [call for call in [self.profile.show_picture] if call]
        self.scene = self.profile.play(*[Said([call]) for call in calls], self.search)
        return f"{len(calls)} calls"

    def search(self, _):
        """Searches the log for some words, through the mount."""
        stored = self.machine.stored().items()
        paths = [path for path, file in stored if expected.is_of(self.outputs[0], file.read_bytes())]
        path = self.machine.mount / (paths or ["nothing"])[0]
        return Said([self.profile.shell(f"cat '{path}.grep/{WANTED}'")])

    def short_output(self):
        turn = self.scene.turns[0]
        expected.check_left(turn)
        if outputs.SHORT.strip() not in str(turn.result):
            raise Failed(f"it is not in {expected.shown(turn.result)}")
        if any(file.read_text() == outputs.SHORT for file in self.machine.stored().values()):
            raise Failed("it is stored")
        return "left alone, not stored"

    def described(self):
        [about] = [json.loads(file.read_text()) for file in self.machine.store.glob("context/*/about.json")]
        prompt = about.pop("prompt", None)
        if about != {"directory": str(self.machine.project), "host": self.kind.name}:
            raise Failed(f"the conversation says {about}")
        if self.profile.tells_prompt and prompt != self.scene.prompt:
            raise Failed(f"the user's words are {self.scene.prompt!r}, and the conversation says {prompt!r}")
        return prompt or "without the user's words"

    def picture(self):
        """An image reaches the model, whatever tool shows it."""
        if not self.profile.sends_pictures:
            raise Cannot("the host sends this kind of model none")
        if outputs.picture() not in self.scene.sent():
            raise Failed("the model was not sent the image")
        return "as it was"

    def no_server(self):
        raise Cannot(self.profile.cannot["MCP results"])

    def became(self, output, turn):
        why = self.profile.cannot.get(output.name)
        if why:
            expected.check_left(turn)
            raise Cannot(why)
        why = self.profile.may_miss.get(output.name)
        if why and not expected.is_stored(output, self.machine):
            expected.check_missed(turn)
            raise Cannot(why)
        how = self.profile.how.get(output.name, expected.REPLACED)
        return expected.check(output, how, turn, self.machine)

    def read_on(self):
        found = expected.strings(self.scene.turns[-1].result)
        line = next(line for line in outputs.log(outputs.LOG_BYTES).splitlines() if WANTED in line)
        if not any(f"4321:{line}" in text for text in found):
            raise Failed(f"the search in the mount found {expected.shown(found)}")
        return "the line that was searched for"

    def new_start(self):
        return self.not_told(self.profile.play(self.profile.short_step()), "a new start")

    def not_told(self, scene, where):
        if POINTERS in scene.sent():
            raise Failed(f"the model was told of outputs at {where}")
        return f"{len(scene.bodies)} requests"

    def play_resumed(self):
        self.scene = self.profile.play(*self.profile.compacting_steps(), begins=RESUME)
        if not self.scene.summaries:
            raise Failed("the host compacted nothing")
        return f"{len(self.scene.bodies)} requests, {len(self.scene.summaries)} of them for a summary"

    def told(self, where, bodies):
        why = self.profile.cannot.get(where)
        if why:
            raise Cannot(why)
        texts = [text for body in bodies for text in expected.strings(body) if POINTERS in text]
        if not texts:
            raise Failed(f"no request of {len(bodies)} names the stored outputs")
        # A host may put it into a longer text.
        pointers = texts[-1][texts[-1].index(POINTERS):][:MOST_POINTERS]
        if not any(path.split("/artifacts/")[1] in pointers for path in self.machine.stored()):
            raise Failed(f"this names no output that is stored: {pointers}")
        return f"in {len(texts)} texts"

    def messages(self):
        why = self.profile.cannot.get("messages")
        if why:
            raise Cannot(why)
        messages = self.machine.messages()
        roles = {message["role"] for message in messages}
        if missing := {"user", "assistant", "tool"} - roles:
            raise Failed(f"of {len(messages)} messages none is of {', '.join(sorted(missing))}")
        twice = len(messages) - len({message["id"] for message in messages})
        if twice:
            raise Failed(f"{twice} of {len(messages)} messages are stored twice")
        return f"{len(messages)} messages, each once"

    def fork(self):
        why = self.profile.cannot.get(FORK)
        if why:
            raise Cannot(why)
        first = self.profile.play(self.profile.short_step(), begins=FORK).bodies[0]
        texts = [text for text in expected.strings(first) if expected.NOTICE in text]
        names = [path.split("/artifacts/")[1] for path in self.machine.stored()]
        if not any(name in text for text in texts for name in names):
            raise Failed("the first request names no output that is stored")
        return "a stand-in, or all that is stored"

    def through_gateway(self):
        """A server of the host runs through `ctxfs mcp`, which keeps an error that no hook can keep."""
        if not self.profile.probe(0, "text"):
            raise Cannot(self.profile.cannot["MCP results"])
        self.machine.ctxfs("install", "mcp", self.kind.name)
        if self.machine.settings() == self.before:
            raise Failed("`ctxfs install mcp` changed no file")
        kept = [one for one in expected.of_server(self.profile) if one.name in ("MCP result", "MCP error")]
        scene = self.profile.play(*[Said([one.call]) for one in kept])
        turns = zip(kept, scene.turns)
        return "; ".join(expected.check(one, expected.REPLACED, turn, self.machine) for one, turn in turns)

    def plugged_in(self):
        """The host takes the plug-in of the checkout, which calls ctxfs as the PATH has it."""
        commands = self.profile.plug_in(ROOT)
        if not commands:
            raise Cannot("there is none for this host")
        environment = self.machine.environment
        environment["PATH"] = f"{self.program.parent}:{environment['PATH']}"
        for argv in commands:
            ended = children.run(argv, COMMAND, env={**environment, **self.profile.environment()}, cwd=self.machine.project)
            if ended.code != 0:
                raise Failed(f"{' '.join(map(str, argv))}: {ended}")
        result = expected.of_server(self.profile)[0]
        scene = self.profile.play(Said([result.call]))
        if SKILL not in scene.sent():
            raise Failed("the model was not told of the skill")
        return f"{expected.check(result, expected.REPLACED, scene.turns[0], self.machine)}; the skill is known"

    def without_store(self):
        self.machine.ctxfs("install", self.kind.name)
        self.machine.break_store()
        calls = [self.profile.shell("cat build.log"), self.profile.shell("cat short.txt")]
        calls += [call for call in [self.profile.probe(outputs.SERVER_BYTES, "text")] if call]
        scene = self.profile.play(*[Said([call]) for call in calls], begins=NEW)
        for turn, begins in zip(scene.turns, ["INFO request", outputs.SHORT.strip(), "row 0000001"]):
            expected.check_left(turn)
            if begins not in str(turn.result):
                raise Failed(f"the model did not get the output: {expected.shown(turn.result)}")
        failures = [outcome for outcome in self.machine.outcomes() if outcome.startswith("failed")]
        if not failures:
            raise Failed(f"no call of the hook has failed: {self.machine.outcomes()}")
        return f"{len(scene.turns)} results of the host itself, {len(failures)} failures in hook.log"


class CommandChecks:
    """What becomes of commands that the host runs under `ctxfs run`, beside the same without ctxfs."""

    # Bytes of outputs that both hosts show whole.
    SIZES = [4_000, 5_000, 6_000, 7_000, 8_000, 9_000, 9_800]

    def __init__(self, checks):
        self.kind, self.program, self.model = checks.kind, checks.program, checks.model

    def played(self, commands, install, **environment):
        """Plays the commands on a machine of their own. Returns the results, and what is left of the machine's project."""
        with Machine(self.program) as machine:
            machine.environment.update(environment)
            profile = self.kind(machine, self.model)
            profile.configure()
            if install:
                machine.ctxfs("install", self.kind.name)
            (machine.project / "precious").mkdir()
            scene = profile.play(*[Said([profile.shell(command)]) for command in commands])
            left = (machine.project / "precious").exists()
            return [turn.result for turn in scene.turns], left

    def whole(self):
        commands = [f"head -c {size} build.log" for size in self.SIZES]
        (bare, _), (kept, _) = (self.played(commands, install) for install in (False, True))
        for size, result in zip(self.SIZES, kept):
            if outputs.log(outputs.LOG_BYTES)[:size].strip() not in "\n".join(expected.strings(result)):
                raise Failed(f"{size} bytes did not arrive whole: {expected.shown(result)}")
        sizes = [sum(len(text) for result in results for text in expected.strings(result)) for results in (bare, kept)]
        # The host tells ids and times, whose lengths vary by some characters.
        if sizes[1] > sizes[0] + 8 * len(commands):
            raise Failed(f"the model was sent {sizes[1]} characters, and {sizes[0]} without ctxfs")
        return f"{sizes[1]} characters, {sizes[0]} without ctxfs"

    def refused(self):
        if not self.kind.refuses_removal:
            raise Cannot("the host refuses none by itself in this mode")
        (bare, left_bare), (kept, left) = (self.played(["rm -rf precious"], install) for install in (False, True))
        if not left_bare:
            raise Failed(f"the host does not refuse it without ctxfs: {expected.shown(bare[0])}")
        if not left:
            raise Failed(f"it ran, and does not without ctxfs: {expected.shown(kept[0])}")
        return "as without ctxfs"

    def full_disk(self):
        [result], _ = self.played(["cat failing.log; exit 3"], True, CTXFS_MIN_FREE="1000TiB")
        # The beginning, which the host shows in any case.
        text = "\n".join(expected.strings(result))
        if "INFO request 1 took" not in text:
            raise Failed(f"the model did not get the output: {expected.shown(result)}")
        return f"{len(text)} characters of it"
