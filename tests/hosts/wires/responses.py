"""OpenAI Responses: Codex."""

import json


def speaks(path):
    return path.endswith("/responses")


def last_said(body):
    last = body["input"][-1]
    if last.get("type", "message") != "message" or last.get("role") != "user":
        return ""
    return "\n".join(part.get("text", "") for part in last["content"])


def results(body):
    return [item["output"] for item in body["input"] if item.get("type", "").endswith("_output")]


def reply(body, number, said, stream):
    message = {
        "type": "message", "id": f"m_{number}", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": said.text, "annotations": []}],
    }
    output = [called(call, f"{number:04}{at:02}") for at, call in enumerate(said.calls)] or [message]
    usage = {
        "input_tokens": said.tokens, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": said.tokens + 20,
    }
    response = {
        "id": f"resp_{number}", "object": "response", "created_at": 1, "model": body.get("model", "scripted"),
        "status": "completed", "output": output, "usage": usage, "error": None, "incomplete_details": None,
    }
    return events(response) if stream else response


def called(call, id):
    item = {
        "type": "function_call", "id": f"fc_{id}", "call_id": f"call_{id}", "name": call.tool,
        "arguments": json.dumps(call.arguments), "status": "completed",
    }
    return {**item, "namespace": call.namespace} if call.namespace else item


def events(response):
    begun = {**response, "status": "in_progress", "output": []}
    found = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(response["output"]):
        started = {**item, "status": "in_progress"}
        found += [
            {"type": "response.output_item.added", "output_index": index, "item": started},
            {"type": "response.output_item.done", "output_index": index, "item": item},
        ]
    found.append({"type": "response.completed", "response": response})
    return [{**event, "sequence_number": at} for at, event in enumerate(found)]
