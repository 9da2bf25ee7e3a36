// Vercel AI SDK: the model gets the stand-in of a long output, and ctxfs has all of it.
import { spawn } from "node:child_process"

const ask = (event) =>
  new Promise((resolve) => {
    const hook = spawn("ctxfs", ["hook", "claude-code"], { stdio: ["pipe", "pipe", "ignore"], timeout: 15000 })
    let answer = ""
    hook.stdout.setEncoding("utf8").on("data", (text) => (answer += text))
    hook.on("error", () => resolve("")).on("close", () => resolve(answer))
    hook.stdin.on("error", () => {}).end(JSON.stringify(event))
  })

const keep = async (conversation, name, input, call, output) => {
  try {
    const text = typeof output === "string" ? output : JSON.stringify(output)
    const event = { hook_event_name: "PostToolUse", session_id: conversation, tool_name: `mcp__ai__${name}`, tool_input: input, tool_use_id: call, tool_response: text }
    return JSON.parse(await ask(event)).hookSpecificOutput.updatedToolOutput
  } catch {
    return output // a short output has no answer; without ctxfs all is as it was
  }
}

// Returns `tools` whose long outputs are kept in `conversation`.
export const withCtxfs = (conversation, tools) => {
  const execute = (name, tool) => async (input, options) =>
    keep(conversation, name, input, options.toolCallId, await tool.execute(input, options))
  const wrap = ([name, tool]) => [name, tool.execute ? { ...tool, execute: execute(name, tool) } : tool]
  return Object.fromEntries(Object.entries(tools).map(wrap))
}
