"""LangChain and deepagents: the model gets the stand-in of a long output, and ctxfs has all of it."""
import asyncio, json, subprocess, uuid
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage

READERS = {"read_file", "grep", "ls", "glob"}  # they read what stand-ins name
CONVERSATION = f"langchain-{uuid.uuid4()}"  # of threads without an id


def keep(request, result):
    call = request.tool_call
    if not isinstance(result, ToolMessage) or call["name"] in READERS:
        return result
    thread = request.runtime.config.get("configurable", {}).get("thread_id", CONVERSATION)
    event = {"hook_event_name": "PostToolUse", "session_id": str(thread), "tool_name": f"mcp__langchain__{call['name']}",
             "tool_input": call["args"], "tool_use_id": call["id"], "tool_response": result.content}
    try:
        run = subprocess.run(["ctxfs", "hook", "claude-code"], input=json.dumps(event), capture_output=True, encoding="utf-8", timeout=15)
        answer = json.loads(run.stdout)["hookSpecificOutput"]["updatedToolOutput"]
    except Exception:  # a short output has no answer; without ctxfs all is as it was
        return result
    return result.model_copy(update={"content": answer})


class Ctxfs(AgentMiddleware):
    def wrap_tool_call(self, request, handler):
        return keep(request, handler(request))

    async def awrap_tool_call(self, request, handler):
        return await asyncio.to_thread(keep, request, await handler(request))
