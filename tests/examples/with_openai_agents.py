"""The OpenAI Agents SDK with the guardrail, against a model that follows a script."""

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from support import LONG, SHORT, assert_stand_in, outputs, run, store

from openai_agents_ctxfs import ctxfs

set_tracing_disabled(True)


class Scripted(Model):
    """Calls one tool, and says that it is done."""

    def __init__(self, name):
        self.name, self.seen = name, []

    async def get_response(self, system_instructions, input, *arguments, **options):
        results = [item for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"]
        self.seen += [result["output"] for result in results]
        if results:
            text = ResponseOutputText(type="output_text", text="done", annotations=[])
            said = ResponseOutputMessage(id="m1", type="message", role="assistant", status="completed", content=[text])
        else:
            said = ResponseFunctionToolCall(type="function_call", name=self.name, call_id="call_0", arguments='{"text": "x"}')
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *arguments, **options):
        raise NotImplementedError


@function_tool(tool_output_guardrails=[ctxfs])
def big(text: str) -> str:
    """Prints much."""
    return LONG


@function_tool(tool_output_guardrails=[ctxfs])
def small(text: str) -> str:
    """Prints little."""
    return SHORT


@function_tool(tool_output_guardrails=[ctxfs])
def table(text: str) -> dict:
    """Returns no text."""
    return {"rows": list(range(5000))}


@function_tool(tool_output_guardrails=[ctxfs])
def fail(text: str) -> str:
    """Fails."""
    raise ValueError("no such table")


def agent(name):
    model = Scripted(name)
    return Agent(name="a", model=model, tools=[big, small, table, fail]), model


CONFIG = RunConfig(group_id="g7")


def test_a_long_output_is_kept():
    with store() as dir:
        asked, model = agent("big")
        Runner.run_sync(asked, "go", run_config=CONFIG)
        assert_stand_in(model.seen[0], "openai-agents/big")
        assert outputs(dir) == [("g7", "call_0.txt", LONG)]


async def test_async():
    with store() as dir:
        asked, model = agent("big")
        await Runner.run(asked, "go", run_config=CONFIG)
        assert_stand_in(model.seen[0], "openai-agents/big")
        assert outputs(dir) == [("g7", "call_0.txt", LONG)]


def test_a_run_without_a_group():
    with store() as dir:
        asked, model = agent("big")
        Runner.run_sync(asked, "go")
        ((conversation, name, text),) = outputs(dir)
        assert conversation.startswith("openai-agents-") and (name, text) == ("call_0.txt", LONG)


def test_a_short_output_is_left_alone():
    with store() as dir:
        asked, model = agent("small")
        Runner.run_sync(asked, "go", run_config=CONFIG)
        assert model.seen == [SHORT] and outputs(dir) == []


def test_what_is_no_text_is_left_alone():
    with store() as dir:
        asked, model = agent("table")
        Runner.run_sync(asked, "go", run_config=CONFIG)
        assert model.seen == [str({"rows": list(range(5000))})] and outputs(dir) == []


def test_a_failure_is_told():
    with store() as dir:
        asked, model = agent("fail")
        Runner.run_sync(asked, "go", run_config=CONFIG)
        assert "error occurred" in model.seen[0] and outputs(dir) == [], model.seen


def test_without_ctxfs():
    with store(has_ctxfs=False) as dir:
        asked, model = agent("big")
        Runner.run_sync(asked, "go", run_config=CONFIG)
        assert model.seen == [LONG] and outputs(dir) == []


run(dict(globals()))
