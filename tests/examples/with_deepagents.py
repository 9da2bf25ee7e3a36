"""deepagents with the middleware, and a mount that its own tools read."""

import contextlib
import subprocess
import time

from deepagents import create_deep_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from support import LONG, assert_stand_in, outputs, run, store

from deepagents_mount import with_mount
from langchain_ctxfs import Ctxfs


class Scripted(BaseChatModel):
    """Makes the calls of its script, one after the other."""

    calls: list
    seen: list = []

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        results = [message for message in messages if isinstance(message, ToolMessage)]
        self.seen[:] = results
        calls = self.calls[len(results) : len(results) + 1]
        message = AIMessage(content="" if calls else "done", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def big(text: str) -> str:
    """Prints much."""
    return LONG


@contextlib.contextmanager
def mounted(dir):
    """Mounts the store until the end, and waits for the server to go."""
    dir.mkdir()
    server = subprocess.Popen(["ctxfs", "mount", "--foreground", dir], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not dir.is_mount():
            assert server.poll() is None, "no mount"
            time.sleep(0.05)
        yield dir
    finally:
        subprocess.run(["ctxfs", "umount", dir], capture_output=True)
        server.wait(timeout=60)


def test_the_stand_in_leads_to_the_mount():
    with store() as dir:
        with mounted(dir / "ctx") as mount:
            output = f"{mount}/t7/artifacts/tool/call_0.txt"
            calls = [
                {"name": "big", "args": {"text": "x"}, "id": "call_0"},
                {"name": "read_file", "args": {"file_path": f"{output}.tail", "limit": 300}, "id": "call_1"},
                {"name": "read_file", "args": {"file_path": f"{output}.grep/line 777$"}, "id": "call_2"},
                {"name": "ls", "args": {"path": f"{mount}/t7/artifacts/tool"}, "id": "call_3"},
            ]
            model = Scripted(calls=calls)
            agent = create_deep_agent(model=model, tools=[big], middleware=[Ctxfs()], backend=with_mount(str(mount)))
            agent.invoke({"messages": [{"role": "user", "content": "go"}]}, {"configurable": {"thread_id": "t7"}})
            stand_in, tail, found, listing = [message.content for message in model.seen]
            assert_stand_in(stand_in, "langchain/big")
            assert f"file:   {output} " in stand_in, stand_in
            assert "ERROR: the real reason" in tail and "line 19990" in tail, tail
            assert "777:line 777" in found, found
            assert "call_0.txt.summary" in listing, listing
            assert outputs(dir) == [("t7", "call_0.txt", LONG)]


run(dict(globals()))
