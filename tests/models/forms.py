"""The two forms of requests and replies, in the types of the published SDKs."""

import json

import anthropic.types as claude
import anthropic.types.message_create_params as claude_params
import openai.types.chat as chat
import openai.types.chat.completion_create_params as chat_params
from openai.types import CompletionUsage
from openai.types.chat import chat_completion_chunk as chunk
from pydantic import TypeAdapter

IN, OUT = 70, 9


class Unknown(Exception):
    """A request has what the SDK does not know."""


class Form:
    """A form: its SDK's type of a request, and replies as the SDK writes them."""

    def checked(self, body):
        """Fails unless the SDK could have sent a request."""
        if more := set(body) - set(self.request.__annotations__):
            raise Unknown(f"parameters that the SDK does not have: {', '.join(sorted(more))}")
        TypeAdapter(self.request).validate_python(body, strict=True)


class OpenAi(Form):
    kind, path, key = "openai", "/v1/chat/completions", "authorization"
    request = chat_params.CompletionCreateParamsStreaming

    def schema(self, body):
        return body["response_format"]["json_schema"]["schema"]

    def results(self, body):
        return [message["content"] for message in body["messages"] if message["role"] == "tool"]

    def events(self, text, calls):
        """Yields a reply: its text in two parts, and calls of tools, each in two parts."""
        half = len(text) // 2
        deltas = [chunk.ChoiceDelta(role="assistant", content="")]
        deltas += [chunk.ChoiceDelta(content=part) for part in (text[:half], text[half:]) if part]
        for index, (name, arguments) in enumerate(calls):
            part = lambda **function: chunk.ChoiceDeltaToolCallFunction(**function)
            first = chunk.ChoiceDeltaToolCall(
                index=index, id=f"call_{index}", type="function", function=part(name=name, arguments=arguments[:5]))
            more = chunk.ChoiceDeltaToolCall(index=index, function=part(arguments=arguments[5:]))
            deltas += [chunk.ChoiceDelta(tool_calls=[first]), chunk.ChoiceDelta(tool_calls=[more])]
        end = "tool_calls" if calls else "stop"
        choices = [[chunk.Choice(index=0, delta=delta)] for delta in deltas]
        choices.append([chunk.Choice(index=0, delta=chunk.ChoiceDelta(), finish_reason=end)])
        whole = lambda choices, usage=None: chat.ChatCompletionChunk(
            id="c1", created=1, model="a", object="chat.completion.chunk", choices=choices, usage=usage)
        for one in choices:
            yield None, whole(one).to_json(indent=None)
        usage = CompletionUsage(prompt_tokens=IN, completion_tokens=OUT, total_tokens=IN + OUT)
        yield None, whole([], usage).to_json(indent=None)
        yield None, "[DONE]"


class Anthropic(Form):
    kind, path, key = "anthropic", "/v1/messages", "x-api-key"
    request = claude_params.MessageCreateParamsStreaming

    def schema(self, body):
        return body["output_config"]["format"]["schema"]

    def results(self, body):
        blocks = [block for message in body["messages"] if isinstance(message["content"], list)
                  for block in message["content"]]
        return [block["content"] for block in blocks if block["type"] == "tool_result"]

    def events(self, text, calls):
        usage = claude.Usage(input_tokens=IN, output_tokens=1)
        message = claude.Message(id="m1", content=[], model="a", role="assistant", type="message", usage=usage)
        events = [claude.RawMessageStartEvent(type="message_start", message=message)]
        half = len(text) // 2
        blocks = []
        if text:
            parts = [claude.TextDelta(type="text_delta", text=part) for part in (text[:half], text[half:])]
            blocks.append((claude.TextBlock(type="text", text=""), parts))
        for index, (name, arguments) in enumerate(calls):
            start = claude.ToolUseBlock(type="tool_use", id=f"toolu_{index}", name=name, input={})
            parts = [claude.InputJSONDelta(type="input_json_delta", partial_json=part)
                     for part in (arguments[:5], arguments[5:])]
            blocks.append((start, parts))
        for index, (start, parts) in enumerate(blocks):
            events.append(claude.RawContentBlockStartEvent(
                type="content_block_start", index=index, content_block=start))
            events += [claude.RawContentBlockDeltaEvent(type="content_block_delta", index=index, delta=part)
                       for part in parts]
            events.append(claude.RawContentBlockStopEvent(type="content_block_stop", index=index))
        end = "tool_use" if calls else "end_turn"
        events.append(claude.RawMessageDeltaEvent(
            type="message_delta", delta={"stop_reason": end}, usage={"output_tokens": OUT}))
        events.append(claude.RawMessageStopEvent(type="message_stop"))
        for event in events:
            yield event.type, event.to_json(indent=None)


def stream(events):
    """Returns events as `text/event-stream`."""
    lines = ((f"event: {name}\n" if name else "") + f"data: {data}\n\n" for name, data in events)
    return "".join(lines).encode()


def compact(value):
    return json.dumps(value, separators=(",", ":"))
