"""Gemini CLI."""

from hosts.profiles.profile import RESUME, Profile
from hosts.scripted_model import Call


class GeminiCli(Profile):
    name, package, version = "gemini-cli", "@google/gemini-cli", "0.61.0"
    tells_prompt = True
    keeps_last_newline = False
    cannot = {
        "MCP result in parts": "the host shows all of it",
        "MCP result with an image": "the host shows all of it",
        "compaction": "the host calls its hook before every request, whether or not it compacts",
        "messages": "the host calls its hook before every request, whether or not it compacts",
        "fork": "the host has none",
    }

    def configure(self):
        server, *arguments = self.probe_server()
        self.machine.write(".gemini/settings.json", {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
            "mcpServers": {"probe": {"command": server, "args": arguments, "trust": True}},
        })

    def argv(self, prompt, begins):
        # With its router, the host asks for models that do not answer.
        argv = ["node", self.modules / "@google/gemini-cli/bundle/gemini.js", "-m", "gemini-2.5-flash"]
        argv += ["--skip-trust", "--yolo", "--include-directories", self.machine.mount]
        return [*argv, *(["--resume", "latest"] if begins == RESUME else []), "-p", prompt]

    def environment(self):
        return {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": self.model.url}

    @staticmethod
    def shell(command):
        return Call("run_shell_command", {"command": command, "description": "a step"})

    @staticmethod
    def probe(size, form):
        return Call("mcp_probe_big", {"bytes": size, "form": form})
