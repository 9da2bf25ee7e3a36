"""What all hosts have: how they are set up, started, and what their tools are called."""

import pathlib

from hosts import children, outputs, packages
from hosts.report import Failed
from hosts.scripted_model import FEW, MANY, Said

# Seconds for a run of a host: the slowest start takes half a minute on two processors.
RUN = 150
# How a run begins: a new conversation, the last one again, or a copy of it.
NEW, RESUME, FORK = "new", "resume", "fork"
PROBE = pathlib.Path(outputs.__file__).with_name("mcp_probe.py")


class Profile:
    """A host on a machine, with the scripted model as its model.

    A subclass names its package and version, writes the settings that a user would have (`configure`), and knows its
    command line (`argv`, `environment`) and its tools (`shell`, `probe`).
    """

    name = package = version = ""
    # What the host does not do: reasons by the name of an output, or of what a model is told at.
    cannot = {}
    # Outputs of which the hook may not see all, depending on who is first: the reasons.
    may_miss = {}
    # Outputs that reach the model in another way than by the stand-in in their place.
    how = {}
    # What the host joins the texts of a result with.
    joint = "\n"
    # Whether it sends images to a model of this kind.
    sends_pictures = True
    # The call that shows an image, where no server does.
    show_picture = None
    # Whether the output of a command has its last newline.
    keeps_last_newline = True
    # Whether a result with structure reaches the model as its structure; else as its text.
    shows_structure = False

    # Whether the events name a transcript with the user's words.
    tells_prompt = False

    # Whether the host runs commands under `ctxfs run`, and whether it refuses `rm -rf` where nobody can be asked.
    runs_commands = refuses_removal = False
    # Whether the host can be run with the rules and the sandbox of its settings, and whether it is.
    confines = is_confined = False

    def __init__(self, machine, model):
        self.machine, self.model = machine, model
        self.modules = self.fetch()
        self.runs = 0

    @classmethod
    def fetch(cls):
        return packages.fetched(cls.package, cls.version)

    def play(self, *steps, begins=NEW):
        """Runs the host once, with the model saying `steps`. Returns what happened."""
        self.runs += 1
        scene = self.model.play(f"scene {self.runs}", steps)
        environment = {**self.machine.environment, **self.environment()}
        argv = self.argv(scene.prompt, begins)
        ended = children.run(argv, RUN, cwd=self.machine.project, env=environment)
        if ended.code != 0 or scene.over not in ended.stdout + ended.stderr:
            raise Failed(f"{scene.name} did not come to its end: {ended}")
        return scene

    def compacting_steps(self):
        """Returns the steps of a turn in which the host compacts the conversation: for the tokens that the model claims."""
        return [self.short_step(), self.short_step(MANY), self.short_step()]

    def short_step(self, tokens=FEW):
        return Said([self.shell("cat short.txt")], tokens=tokens)

    def plug_in(self, top):
        """Returns the commands that validate the plug-in of the checkout at `top`, and install it; none if the host takes
        no such plug-in."""
        return []

    def probe_server(self):
        """Returns the command line of the MCP server."""
        return ["python3", str(PROBE)]
