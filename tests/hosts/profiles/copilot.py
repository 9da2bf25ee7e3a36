"""GitHub Copilot CLI."""

from hosts import packages
from hosts.profiles.profile import RESUME, Profile
from hosts.scripted_model import Call


class Copilot(Profile):
    name, package, version = "copilot", "@github/copilot", "1.0.102"
    joint = ""
    shows_structure = True
    sends_pictures = False
    cannot = {
        "MCP error": "the host shows its hook 10 KB of it",
        "compaction": "the host calls a hook before it compacts, which can tell nothing, and none after that",
        "messages": "the host names no transcript",
        "fork": "the host has none",
    }

    def configure(self):
        server, *arguments = self.probe_server()
        probe = {"type": "local", "command": server, "args": arguments, "tools": ["*"]}
        self.machine.write(".copilot/mcp-config.json", {"mcpServers": {"probe": probe}})

    def argv(self, prompt, begins):
        program = self.modules / f"@github/copilot-linux-{packages.CPU}/copilot"
        going_on = ["--continue"] if begins == RESUME else []
        return [program, *going_on, "-p", prompt, "--allow-all-tools", "--add-dir", self.machine.mount]

    def environment(self):
        return {
            "COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false", "COPILOT_MODEL": "gpt-5",
            "COPILOT_PROVIDER_BASE_URL": f"{self.model.url}/v1", "COPILOT_PROVIDER_API_KEY": "none",
        }

    @staticmethod
    def shell(command):
        return Call("bash", {"command": command, "description": "a step"})

    @staticmethod
    def probe(size, form):
        return Call("probe-big", {"bytes": size, "form": form})
