"""OpenAI Agents SDK: the model gets the stand-in of a long text, and ctxfs has all of it."""

import asyncio, json, subprocess, uuid

from agents import ToolGuardrailFunctionOutput, tool_output_guardrail

CONVERSATION = f"openai-agents-{uuid.uuid4()}"  # of runs without a group


def stand_in(call, output):
    event = {"hook_event_name": "PostToolUse", "session_id": getattr(call.run_config, "group_id", None) or CONVERSATION,
             "tool_name": f"mcp__openai-agents__{call.tool_name}", "tool_input": call.tool_arguments,
             "tool_use_id": call.tool_call_id, "tool_response": output}
    try:
        run = subprocess.run(["ctxfs", "hook", "claude-code"], input=json.dumps(event), capture_output=True, encoding="utf-8", timeout=15)
        return json.loads(run.stdout)["hookSpecificOutput"]["updatedToolOutput"]
    except Exception:  # a short output has no answer; without ctxfs all is as it was
        return None


@tool_output_guardrail
async def ctxfs(data):
    text = await asyncio.to_thread(stand_in, data.context, data.output) if isinstance(data.output, str) else None
    return ToolGuardrailFunctionOutput.reject_content(text) if text else ToolGuardrailFunctionOutput.allow()
