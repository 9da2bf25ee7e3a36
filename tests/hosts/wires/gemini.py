"""Gemini: gemini-cli."""


def speaks(path):
    return "enerateContent" in path


def last_said(body):
    last = body["contents"][-1]
    if last.get("role") == "model" or any("functionResponse" in part for part in last["parts"]):
        return ""
    return "\n".join(part.get("text", "") for part in last["parts"])


def results(body):
    parts = [part for content in body["contents"] for part in content["parts"]]
    return [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]


def reply(_, number, said, stream):
    parts = [
        {"functionCall": {"id": f"call_{number:04}{at:02}", "name": call.tool, "args": call.arguments}}
        for at, call in enumerate(said.calls)
    ] or [{"text": said.text}]
    usage = {"promptTokenCount": said.tokens, "candidatesTokenCount": 20, "totalTokenCount": said.tokens + 20}
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}
    return [answer] if stream else answer
