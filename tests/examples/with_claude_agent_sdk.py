"""The callback of the Claude Agent SDK, called as the SDK does, with events of the host."""

import claude_agent_sdk

from support import LONG, SHORT, assert_stand_in, outputs, run, store

from claude_agent_sdk_ctxfs import HOOKS


def event(response, **more):
    return {
        "session_id": "s7", "transcript_path": "/nowhere/s7.jsonl", "cwd": "/", "permission_mode": "default",
        "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {"command": "make"},
        "tool_use_id": "toolu_01", "tool_response": response, **more,
    }


def shell(stdout):
    return {"stdout": stdout, "stderr": "", "interrupted": False, "isImage": False}


async def call(name, event):
    (matcher,) = HOOKS[name]
    (callback,) = matcher.hooks
    return await callback(event, event["tool_use_id"], {"signal": None})


async def test_a_long_output_is_kept():
    claude_agent_sdk.ClaudeAgentOptions(hooks=HOOKS)
    with store() as dir:
        answer = (await call("PostToolUse", event(shell(LONG))))["hookSpecificOutput"]
        assert answer["hookEventName"] == "PostToolUse"
        result = answer["updatedToolOutput"]
        assert_stand_in(result.pop("stdout"), "claude-code/Bash")
        assert result == {"stderr": "", "interrupted": False, "isImage": False}
        assert outputs(dir) == [("s7", "toolu_01.txt", LONG)]


async def test_results_of_servers():
    with store() as dir:
        blocks = [{"type": "text", "text": LONG}]
        answer = await call("PostToolUse", event(blocks, tool_name="mcp__probe__big"))
        (block,) = answer["hookSpecificOutput"]["updatedToolOutput"]
        assert_stand_in(block["text"], "probe/big")
        assert outputs(dir) == [("s7", "toolu_01.txt", LONG)]


async def test_a_short_output_is_left_alone():
    with store() as dir:
        assert await call("PostToolUse", event(shell(SHORT))) == {}
        assert outputs(dir) == []


async def test_a_failure_is_left_alone():
    with store() as dir:
        failure = event(None, hook_event_name="PostToolUseFailure", error=f"Exit code 3\n{LONG[:10_000]}")
        assert await call("PostToolUseFailure", failure) == {}
        assert outputs(dir) == []


async def test_without_ctxfs():
    with store(has_ctxfs=False) as dir:
        assert await call("PostToolUse", event(shell(LONG))) == {}
        assert outputs(dir) == []


run(dict(globals()))
