"""OpenAI Chat Completions: opencode, Copilot, pi."""

import json


def speaks(path):
    return path.endswith("/chat/completions")


def last_said(body):
    last = body["messages"][-1]
    if last["role"] != "user":
        return ""
    content = last["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def results(body):
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


def reply(body, number, said, stream):
    message = {"role": "assistant", "content": None if said.calls else said.text}
    if said.calls:
        message["tool_calls"] = [called(call, at, number) for at, call in enumerate(said.calls)]
    finish = "tool_calls" if said.calls else "stop"
    answer = {"id": f"c{number}", "created": 1, "model": body.get("model", "scripted")}
    usage = {"prompt_tokens": said.tokens, "completion_tokens": 20, "total_tokens": said.tokens + 20}
    if not stream:
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return {**answer, "object": "chat.completion", "choices": [choice], "usage": usage}
    chunk = {**answer, "object": "chat.completion.chunk"}
    return [
        {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        {**chunk, "choices": [], "usage": usage},
        "[DONE]",
    ]


def called(call, at, number):
    function = {"name": call.tool, "arguments": json.dumps(call.arguments)}
    return {"index": at, "id": f"call_{number:04}{at:02}", "type": "function", "function": function}
