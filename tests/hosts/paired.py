"""The same commands without ctxfs and with it: what the model is sent of recorded outputs, and what the host refuses."""

import pathlib
import re
import shutil
import tomllib
from dataclasses import dataclass

from hosts import expected, outputs
from hosts.machine import Machine
from hosts.report import Cannot, Failed
from hosts.scripted_model import Said

RECORDED = pathlib.Path(__file__).resolve().parent.parent / "outputs"
# How many of the recorded outputs are played, of all sizes, and the sizes of others that are made of the log.
OUTPUTS, MADE = 54, [1_000, 2_000, 9_000, 29_000, 1_000_000, 10_000_000]
# Commands of one scene: the host sends all results so far with each request.
SCENE = 20
# Characters by which two results of one command may differ: ids, and times of more or fewer digits.
SLACK = 16
VARIES = re.compile(r"0x[0-9a-f]+|[0-9a-f]{6,}|[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?|ctxfs-hosts-\w+")
# What the project has before each command, and what is beside it and must not be there.
LAID_OUT = ["precious", "precious/file", "short.txt"]
OUTSIDE = ["outside", "home/outside"]
SETTINGS = {".git", ".claude", ".codex"}

# Commands that hosts refuse, ask about or confine, and their neighbors that they run.
COMMANDS = """\
rm -rf precious
rm -fr precious
rm -r -f ./precious
/bin/rm -rf precious
command rm -rf precious
env rm -rf precious
sudo rm -rf precious
true; rm -rf precious
true && rm -rf precious
false || rm -rf precious
(rm -rf precious)
bash -c 'rm -rf precious'
sh -c "rm -rf precious"
rm -f precious/file
rm precious/file
rmdir precious
find precious -delete
git reset --hard
git clean -fdx
git checkout -- .
git push --force
git commit --allow-empty -m empty
chmod -R 777 precious
chown -R 1:1 precious
mv precious gone
cp -r precious copy
touch made
echo text > made
tee made < /dev/null
dd if=/dev/zero of=made count=1 status=none
ln -s /etc/passwd made
mkdir -p a/b
sed -i s/a/b/ short.txt
python3 -c 'open("made", "w")'
curl -s http://127.0.0.1:9/
echo text > ../outside
touch ~/outside
kill -9 1
cat short.txt
ls precious
""".splitlines()


@dataclass
class Recorded:
    """An output of a real tool, its exit code, and the texts that say why it failed or what it tells."""

    name: str
    content: bytes
    exit_code: int
    facts: list

    @property
    def command(self):
        return f"cat recorded/{self.name}; exit {self.exit_code}"


class PairedChecks:
    """Plays commands on a machine without ctxfs and on one with it."""

    def __init__(self, checks):
        self.kind, self.program, self.model = checks.kind, checks.program, checks.model

    def outputs(self):
        played = recorded()
        commands = [output.command for output in played]
        bare, kept = (self.results(commands, installed, played) for installed in (False, True))
        worse, sent, found = [], [0, 0], [0, 0]
        for output, without, with_it in zip(played, bare, kept):
            for side, text in enumerate((without, with_it)):
                sent[side] += len(text)
                found[side] += sum(fact in text for fact in output.facts)
            worse += [f"{output.name}: {why}" for why in worsened(output, without, with_it)]
        facts = sum(len(output.facts) for output in played)
        told = f"{sent[0]} characters with {found[0]} of {facts} facts, {sent[1]} with {found[1]} with ctxfs"
        if worse or sent[1] > sent[0] or found[1] < found[0]:
            raise Failed(f"{told}; {'; '.join(worse)}")
        return f"{len(played)} outputs: {told}"

    def refusals(self):
        if not self.kind.confines:
            raise Cannot("the host refuses nothing by itself in this mode")
        bare, kept = (self.confined(installed) for installed in (False, True))
        differing = [
            f"`{command}`: {expected.shown(without)}, with ctxfs {expected.shown(with_it)}"
            for command, without, with_it in zip(COMMANDS, bare, kept) if without != with_it
        ]
        if differing:
            raise Failed("; ".join(differing))
        idle = sum(changed == "" for _, changed in kept)
        return f"{len(COMMANDS)} commands end as without ctxfs; {idle} of them change nothing"

    def results(self, commands, installed, played):
        """Returns the texts that the model is sent for the commands."""
        texts = []
        with Machine(self.program) as machine:
            profile = self.kind(machine, self.model)
            profile.configure()
            (machine.project / "recorded").mkdir()
            for output in played:
                (machine.project / "recorded" / output.name).write_bytes(output.content)
            if installed:
                machine.ctxfs("install", self.kind.name)
            for at in range(0, len(commands), SCENE):
                scene = profile.play(*[Said([profile.shell(command)]) for command in commands[at:at + SCENE]])
                texts += ["\n".join(expected.strings(turn.result)) for turn in scene.turns]
        return texts

    def confined(self, installed):
        """Returns for each of the commands what the model is sent, and what has changed in home and project."""
        # Codex lets its sandbox write to `/tmp`.
        with Machine(self.program, "/var/tmp") as machine:
            profile = self.kind(machine, self.model)
            profile.is_confined = True
            profile.configure()
            if installed:
                machine.ctxfs("install", self.kind.name)
            changes = []

            def step(command):
                def said(_):
                    changes.append(changed(machine))
                    lay_out(machine)
                    return Said([profile.shell(command)])
                return said

            def last(_):
                changes.append(changed(machine))
                return Said([profile.shell("cat short.txt")])

            scene = profile.play(*map(step, COMMANDS), last)
            return list(zip([lines_of(turn.result) for turn in scene.turns], changes[1:]))


def lines_of(result):
    """Returns the lines that the model is sent, sorted: those of two streams come in any order."""
    return sorted(VARIES.sub("#", "\n".join(expected.strings(result))).splitlines())


def recorded():
    """Returns the outputs to play, the shortest first."""
    found = []
    for file in sorted(RECORDED.glob("*/expect.toml")):
        told = tomllib.loads(file.read_text())
        facts = [cause["what"] for cause in told.get("cause", [])]
        content = file.with_name("output").read_bytes()
        found.append(Recorded(file.parent.name, content, told.get("exit", 0), facts))
    found.sort(key=lambda output: len(output.content))
    found = [found[at * len(found) // OUTPUTS] for at in range(OUTPUTS)]
    reason = outputs.REASON + "\n"
    made = [Recorded(f"made-{size}", (outputs.log(size) + reason).encode(), outputs.EXIT_CODE, [outputs.REASON]) for size in MADE]
    return sorted(found + made, key=lambda output: len(output.content))


def worsened(output, without, with_it):
    """Returns what the model has less of with ctxfs. What it pays counts over all outputs: of a long one that succeeded
    Claude Code itself shows 2,000 characters and a path, which a stand-in exceeds, and of a failure 10,000."""
    if any(fact in without for fact in output.facts) and not any(fact in with_it for fact in output.facts):
        yield "no fact of those that the host shows"
    whole = output.content.decode(errors="replace").strip()
    if whole in without and whole not in with_it:
        yield "lines are hidden that the host shows"
    if whole in without and len(with_it) > len(without) + SLACK:
        yield f"{len(with_it)} characters of a whole output instead of {len(without)}"
    if output.exit_code and output.facts and not any(fact in with_it for fact in output.facts):
        yield "no reason of the failure"


def lay_out(machine):
    """Makes the project and what is beside it as before a command."""
    outside = [machine.base / name for name in OUTSIDE]
    for path in [*machine.project.iterdir(), *outside]:
        if path.is_dir() and not path.is_symlink() and path.name not in SETTINGS:
            shutil.rmtree(path)
        elif path.name not in SETTINGS:
            path.unlink(missing_ok=True)
    (machine.project / "short.txt").write_text(outputs.SHORT)
    (machine.project / "precious").mkdir()
    (machine.project / "precious/file").write_text("precious\n")


def changed(machine):
    """Returns the names that a command has made, removed or written."""
    paths = [path.relative_to(machine.project) for path in machine.project.rglob("*")]
    found = {str(path) for path in paths if not SETTINGS & set(path.parts)}
    differing = found ^ set(LAID_OUT) | {name for name in OUTSIDE if (machine.base / name).exists()}
    short = machine.project / "short.txt"
    if short.exists() and short.read_text() != outputs.SHORT:
        differing.add("short.txt")
    return ", ".join(sorted(differing))
