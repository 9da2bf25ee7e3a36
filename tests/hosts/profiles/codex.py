"""Codex."""

from hosts import packages
from hosts.expected import ADDED
from hosts.profiles.profile import RESUME, Profile
from hosts.scripted_model import Call

TRIPLES = {"x64": "x86_64-unknown-linux-musl", "arm64": "aarch64-unknown-linux-musl"}


class Codex(Profile):
    name, package, version = "codex", "@openai/codex", "0.171.0"
    tells_prompt = True
    how = {"MCP result with an image": ADDED}
    shows_structure = True
    runs_commands = refuses_removal = confines = True
    cannot = {
        "MCP error": "the host calls no hook for it",
        "fork": "the host forks only where a person asks it to, in its own window",
    }

    def configure(self):
        server, *arguments = self.probe_server()
        self.machine.write(".codex/config.toml", f"""# The model of the tests.
model = "gpt-5-codex"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "{self.model.url}/v1"
wire_api = "responses"

[mcp_servers.probe]
command = "{server}"
args = {arguments}
""".replace("'", '"'))

    def program(self):
        return self.modules / f"@openai/codex-linux-{packages.CPU}/vendor/{TRIPLES[packages.CPU]}/bin/codex"

    def plug_in(self, top):
        commands = [["marketplace", "add", top], ["add", "ctxfs@ctxfs"]]
        return [[self.program(), "plugin", *command] for command in commands]

    def argv(self, prompt, begins):
        going_on = ["resume", "--last"] if begins == RESUME else []
        # A person trusts the hooks with `/hooks`.
        trust = ["--skip-git-repo-check", "--dangerously-bypass-hook-trust"]
        trust += ["--sandbox", "workspace-write"] if self.is_confined else ["--dangerously-bypass-approvals-and-sandbox"]
        return [self.program(), "exec", *trust, *going_on, prompt]

    def environment(self):
        return {}

    @staticmethod
    def shell(command):
        return Call("exec_command", {"cmd": command})

    @staticmethod
    def probe(size, form):
        return Call("big", {"bytes": size, "form": form}, namespace="mcp__probe")
