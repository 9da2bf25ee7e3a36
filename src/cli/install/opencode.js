// ctxfs for opencode: written by `ctxfs install`, and replaced by it.
//
// Hands the result of each tool to `ctxfs hook opencode`. If it is long, it is stored, and the
// model gets the stand-in that the hook answers with. Whatever fails leaves the result as it is.
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

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

// The parts of a session that are complete, as lines of a transcript.
function transcript(messages) {
  const lines = []
  for (const { info, parts } of messages) {
    const timestamp = new Date(info.time.created).toISOString()
    const add = (id, message) => lines.push(JSON.stringify({ type: "message", id, timestamp, message }) + "\n")
    for (const { type, id, text, tool, callID, state } of parts) {
      if (type === "text" && (info.role === "user" || info.time.completed)) {
        add(id, { role: info.role, content: text })
      } else if (type === "tool" && ["completed", "error"].includes(state?.status)) {
        const call = { type: "toolCall", id: callID, name: tool, arguments: state.input }
        const result = [{ type: "text", text: state.output ?? state.error ?? "" }]
        add(id, { role: "assistant", content: [call] })
        add(`${id}/result`, { role: "toolResult", toolCallId: callID, content: result, isError: state.status === "error" })
      }
    }
  }
  return lines.join("")
}

async function keepMessages(client, conv) {
  const { data } = await client.session.messages({ path: { id: conv } })
  const dir = mkdtempSync(join(tmpdir(), "ctxfs-"))
  try {
    const path = join(dir, `${conv}.jsonl`)
    writeFileSync(path, transcript(data), { mode: 0o600 })
    ask({ conv, event: "messages", path })
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

// What was stored of a session when this process first saw it; null of a new one.
const stored = new Map()

function pointers(conv) {
  if (!stored.has(conv)) stored.set(conv, ask({ conv, event: "resume" }))
  return stored.get(conv)
}

export const Ctxfs = async (host) => ({
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
    try {
      await keepMessages(host.client, session.sessionID)
    } catch {}
    const text = ask({ conv: session?.sessionID, event: "compact" })
    if (text && Array.isArray(result?.context)) result.context.push(text)
  },
})
