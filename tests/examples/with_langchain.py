"""LangChain's agents with the middleware, against a model that follows a script."""

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import ToolException, tool

from support import LONG, SHORT, assert_stand_in, outputs, run, store

from langchain_ctxfs import Ctxfs

IMAGE = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}


class Scripted(BaseChatModel):
    """Calls one tool, and says that it is done."""

    call: dict
    seen: list = []

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        results = [message for message in messages if isinstance(message, ToolMessage)]
        self.seen.extend(results)
        calls = [] if results else [self.call]
        message = AIMessage(content="" if calls else "done", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def big(text: str) -> str:
    """Prints much."""
    return LONG


@tool
def small(text: str) -> str:
    """Prints little."""
    return SHORT


@tool
def blocks(text: str) -> list:
    """Returns a text and an image."""
    return [{"type": "text", "text": LONG}, IMAGE]


def fail(text: str) -> str:
    raise ToolException(LONG)


TOOLS = [big, small, blocks]


def ask(name, tools=TOOLS):
    call = {"name": name, "args": {"text": "x"}, "id": "call_0"}
    model = Scripted(call=call)
    agent = create_agent(model, tools, middleware=[Ctxfs()])
    question = {"messages": [{"role": "user", "content": "go"}]}, {"configurable": {"thread_id": "t7"}}
    return agent, model, question


def test_a_long_output_is_kept():
    with store() as dir:
        agent, model, question = ask("big")
        agent.invoke(*question)
        assert_stand_in(model.seen[0].content, "langchain/big")
        assert outputs(dir) == [("t7", "call_0.txt", LONG)]


async def test_async():
    with store() as dir:
        agent, model, question = ask("big")
        await agent.ainvoke(*question)
        assert_stand_in(model.seen[0].content, "langchain/big")
        assert outputs(dir) == [("t7", "call_0.txt", LONG)]


def test_a_short_output_is_left_alone():
    with store() as dir:
        agent, model, question = ask("small")
        agent.invoke(*question)
        assert model.seen[0].content == SHORT
        assert not (dir / "store").exists() or outputs(dir) == []


def test_an_image_stays():
    with store() as dir:
        agent, model, question = ask("blocks")
        agent.invoke(*question)
        text, image = model.seen[0].content
        assert_stand_in(text["text"], "langchain/blocks")
        assert image == IMAGE
        assert outputs(dir) == [("t7", "call_0.txt", LONG)]


def test_a_failure_stays_one():
    from langchain_core.tools import StructuredTool

    with store() as dir:
        failing = StructuredTool.from_function(fail, name="fail", description="Fails.", handle_tool_error=True)
        agent, model, question = ask("fail", [failing])
        agent.invoke(*question)
        assert model.seen[0].status == "error"
        assert_stand_in(model.seen[0].content, "langchain/fail")
        assert outputs(dir) == [("t7", "call_0.txt", LONG)]


def test_without_ctxfs():
    with store(has_ctxfs=False) as dir:
        agent, model, question = ask("big")
        agent.invoke(*question)
        assert model.seen[0].content == LONG
        assert outputs(dir) == []


run(dict(globals()))
