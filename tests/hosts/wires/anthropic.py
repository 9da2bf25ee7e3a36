"""Anthropic Messages: Claude Code."""

import json


def speaks(path):
    return path.endswith("/messages")


def last_said(body):
    # A host adds messages of the system after it.
    content = next(message["content"] for message in reversed(body["messages"]) if message["role"] != "system")
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content)


def results(body):
    blocks = [block for message in body["messages"] if isinstance(message["content"], list) for block in message["content"]]
    return [block.get("content", "") for block in blocks if block["type"] == "tool_result"]


def reply(body, number, said, stream):
    content = [
        {"type": "tool_use", "id": f"toolu_{number:04}{at:02}", "name": call.tool, "input": call.arguments}
        for at, call in enumerate(said.calls)
    ] or [{"type": "text", "text": said.text}]
    stop = {"stop_reason": "tool_use" if said.calls else "end_turn", "stop_sequence": None}
    message = {
        "id": f"msg_{number:04}", "type": "message", "role": "assistant", "model": body.get("model", "scripted"),
        "content": content, "usage": {"input_tokens": said.tokens, "output_tokens": 20}, **stop,
    }
    return events(message, stop) if stream else message


def events(message, stop):
    begun = {**message, "content": [], "stop_reason": None}
    found = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(message["content"]):
        start, delta = begun_block(block)
        found += [
            {"type": "content_block_start", "index": index, "content_block": start},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    return found + [{"type": "message_delta", "delta": stop, "usage": message["usage"]}, {"type": "message_stop"}]


def begun_block(block):
    if block["type"] == "text":
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
