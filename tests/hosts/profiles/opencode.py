"""opencode."""

from hosts import packages
from hosts.profiles.profile import FORK, RESUME, Profile
from hosts.scripted_model import Call


class Opencode(Profile):
    name, package, version = "opencode", "opencode-ai", "1.18.33"
    may_miss = dict.fromkeys(["command", "failing command"], "the host had not written all of its file")
    cannot = {
        "MCP error": "the host calls no plug-in for it",
        "fork": "a copy is a new conversation, and the host does not tell of which",
    }

    def configure(self):
        modalities = {"input": ["text", "image"], "output": ["text"]}
        limit = {"context": 200_000, "output": 8_000}
        provider = {
            "npm": "@ai-sdk/openai-compatible", "name": "scripted",
            "options": {"baseURL": f"{self.model.url}/v1", "apiKey": "none"},
            "models": {"scripted": {"tool_call": True, "attachment": True, "modalities": modalities, "limit": limit}},
        }
        self.machine.write(".config/opencode/opencode.json", {
            # The host adds it where it is not there.
            "$schema": "https://opencode.ai/config.json",
            "autoupdate": False, "share": "disabled", "model": "scripted/scripted", "small_model": "scripted/scripted",
            "provider": {"scripted": provider},
            "mcp": {"probe": {"type": "local", "command": self.probe_server(), "enabled": True}},
        })

    def argv(self, prompt, begins):
        program = self.modules / f"opencode-linux-{packages.CPU}/bin/opencode"
        going_on = {RESUME: ["--continue"], FORK: ["--continue", "--fork"]}.get(begins, [])
        return [program, "run", *going_on, prompt]

    def environment(self):
        names = ["MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD", "SHARE"]
        return {f"OPENCODE_DISABLE_{name}": "1" for name in names}

    @staticmethod
    def shell(command):
        return Call("bash", {"command": command, "description": "a step"})

    @staticmethod
    def probe(size, form):
        return Call("probe_big", {"bytes": size, "form": form})
