"""pi."""

from hosts.profiles.profile import FORK, RESUME, Profile
from hosts.scripted_model import MANY, Call, Said


class Pi(Profile):
    name, package, version = "pi", "@earendil-works/pi-coding-agent", "0.74.2"
    show_picture = Call("read", {"path": "pixel.png"})
    cannot = {"MCP results": "the host has no MCP"}

    def configure(self):
        cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        model = {
            "id": "scripted", "name": "scripted", "reasoning": False, "input": ["text", "image"], "cost": cost,
            "contextWindow": 200_000, "maxTokens": 8_000,
        }
        provider = {"baseUrl": f"{self.model.url}/v1", "api": "openai-completions", "apiKey": "none", "models": [model]}
        self.machine.write(".pi/agent/models.json", {"providers": {"scripted": provider}})

    def argv(self, prompt, begins):
        program = self.modules / "@earendil-works/pi-coding-agent/dist/cli.js"
        # It compacts between two prompts.
        prompts = [prompt, prompt] if begins == RESUME else [prompt]
        going_on = {RESUME: ["--continue"], FORK: ["--fork", self.last_session()]}.get(begins, [])
        return ["node", program, *going_on, "--provider", "scripted", "--model", "scripted", "-p", *prompts]

    def last_session(self):
        files = (self.machine.home / ".pi/agent/sessions").rglob("*.jsonl")
        return str(max(files, key=lambda file: file.stat().st_mtime, default=""))

    def compacting_steps(self):
        return [self.short_step(), Said(text="So far.", tokens=MANY), self.short_step()]

    def environment(self):
        return {"PI_OFFLINE": "1"}

    @staticmethod
    def shell(command):
        return Call("bash", {"command": command})

    @staticmethod
    def probe(size, form):
        return None
