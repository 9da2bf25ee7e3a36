"""The hosts that are driven."""

from hosts.profiles.claude_code import ClaudeCode
from hosts.profiles.codex import Codex
from hosts.profiles.copilot import Copilot
from hosts.profiles.gemini_cli import GeminiCli
from hosts.profiles.opencode import Opencode
from hosts.profiles.pi import Pi

ALL = [ClaudeCode, Codex, Opencode, GeminiCli, Copilot, Pi]
