"""Claude Code."""

from hosts import packages
from hosts.profiles.profile import FORK, RESUME, Profile
from hosts.scripted_model import Call


class ClaudeCode(Profile):
    name, package, version = "claude-code", "@anthropic-ai/claude-code", "2.1.332"
    tells_prompt = True
    shows_structure = True
    cannot = {"MCP error": "the host shows the hook and the model 10,040 characters of it, and takes no other result"}
    runs_commands = confines = True
    RULES = {"allow": ["Bash(cat:*)", "Bash(ls:*)", "Bash(touch:*)", "Bash(cp:*)"], "deny": ["Bash(mv:*)"]}

    def configure(self):
        rules = self.RULES if self.is_confined else {"allow": ["Bash", "mcp__probe__big"]}
        settings = {"permissions": rules, "cleanupPeriodDays": 30}
        self.machine.write(".claude/settings.json", settings)
        server, *arguments = self.probe_server()
        self.machine.write(".claude.json", {"mcpServers": {"probe": {"command": server, "args": arguments}}})

    def program(self):
        return self.modules / f"@anthropic-ai/claude-code-linux-{packages.CPU}/claude"

    def plug_in(self, top):
        validate, marketplace = ["validate", "--strict"], ["marketplace", "add", top]
        commands = [[*validate, top], [*validate, top / "plugins/ctxfs"], marketplace, ["install", "ctxfs@ctxfs"]]
        return [[self.program(), "plugin", *command] for command in commands]

    def argv(self, prompt, begins):
        going_on = {RESUME: ["--continue"], FORK: ["--continue", "--fork-session"]}.get(begins, [])
        return [self.program(), *going_on, "-p", prompt]

    def environment(self):
        return {
            "ANTHROPIC_BASE_URL": self.model.url, "ANTHROPIC_API_KEY": "none", "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_TMPDIR": str(self.machine.tmp),
        }

    @staticmethod
    def shell(command):
        return Call("Bash", {"command": command, "description": "a step"})

    @staticmethod
    def probe(size, form):
        return Call("mcp__probe__big", {"bytes": size, "form": form})
