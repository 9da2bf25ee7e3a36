// ctxfs for opencode: written by `ctxfs install`, and replaced by it.
//
// Hands the result of each tool to `ctxfs hook opencode`. If it is long, it is stored, and the
// model gets the stand-in that the hook answers with. Whatever fails leaves the result as it is.
import { spawnSync } from "node:child_process"

const PROGRAM = "/usr/bin/ctxfs"
const ARGUMENTS = ["hook", "opencode"]
const OWN_FILES = ["read", "edit", "write"]

function ask(message) {
  try {
    const run = spawnSync(PROGRAM, ARGUMENTS, {
      input: JSON.stringify(message),
      encoding: "utf8",
      timeout: 15000,
      maxBuffer: 1 << 26,
      stdio: ["pipe", "pipe", "ignore"],
    })
    const text = run.status === 0 && run.stdout ? JSON.parse(run.stdout).text : null
    return typeof text === "string" && text ? text : null
  } catch {
    return null
  }
}

function keep(call, result) {
  const message = { conv: call.sessionID, tool: call.tool, call: call.callID, input: call.args }
  if (Array.isArray(result.content)) {
    // An MCP tool: all blocks, before opencode cuts them.
    const isText = (block) => block.type === "text"
    const text = result.content.filter(isText).map((block) => block.text).join("\n")
    const standIn = ask({ ...message, text })
    if (!standIn) return
    const others = result.content.filter((block) => !isText(block))
    result.content = [{ type: "text", text: standIn }, ...others]
  } else if (typeof result.output === "string") {
    const { outputPath: path, exit } = result.metadata ?? {}
    const standIn = ask({ ...message, text: result.output, path, exit })
    if (standIn) result.output = standIn
  }
}

// What was stored of a session when this process first saw it; null of a new one.
const stored = new Map()

function pointers(conv) {
  if (!stored.has(conv)) stored.set(conv, ask({ conv, event: "resume" }))
  return stored.get(conv)
}

export const Ctxfs = async () => ({
  "shell.env": async (shell, result) => {
    if (shell?.sessionID && result?.env) result.env.CTXFS_CONVERSATION = shell.sessionID
  },
  "tool.execute.after": async (call, result) => {
    try {
      if (!OWN_FILES.includes(call.tool)) keep(call, result)
    } catch {}
  },
  "experimental.chat.system.transform": async (chat, result) => {
    const text = chat?.sessionID && pointers(chat.sessionID)
    if (text && Array.isArray(result?.system)) result.system.push(text)
  },
  "experimental.session.compacting": async (session, result) => {
    const text = ask({ conv: session?.sessionID, event: "compact" })
    if (text && Array.isArray(result?.context)) result.context.push(text)
  },
})
