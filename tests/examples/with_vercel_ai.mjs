// The Vercel AI SDK with wrapped tools, against the model for tests that the SDK has.
import assert from "node:assert/strict"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"

import { withCtxfs } from "../../examples/vercel_ai_ctxfs.mjs"

// The packages are in a cache, not beside this file.
const require = createRequire(join(process.env.PACKAGES, "x.js"))
const load = (name) => import(pathToFileURL(require.resolve(name)).href)
const { generateText, stepCountIs, tool } = await load("ai")
const { MockLanguageModelV3 } = await load("ai/test")
const { z } = await load("zod")

const lines = Array.from({ length: 20000 }, (_, number) => `line ${number + 1}`)
const LONG = lines.join("\n") + "\nERROR: the real reason \u20ac\n"
const SHORT = "all is well\n"
const ROWS = { rows: lines }

const define = (execute) => tool({ description: "x", inputSchema: z.object({ text: z.string() }), execute })
const TOOLS = {
  big: define(async () => LONG),
  small: define(async () => SHORT),
  table: define(() => ROWS),
  fail: define(async () => {
    throw new Error("no such table")
  }),
}

/// Calls one tool in a conversation, and returns what the model gets.
async function ask(name) {
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }
  const result = (content, unified) => ({ content, finishReason: { unified, raw: unified }, usage, warnings: [] })
  const call = { type: "tool-call", toolCallId: "call_0", toolName: name, input: JSON.stringify({ text: "x" }) }
  const doGenerate = [result([call], "tool-calls"), result([{ type: "text", text: "done" }], "stop")]
  const model = new MockLanguageModelV3({ doGenerate })
  await generateText({ model, prompt: "go", tools: withCtxfs("v7", TOOLS), stopWhen: stepCountIs(3) })
  const message = model.doGenerateCalls[1].prompt.find((message) => message.role === "tool")
  return message.content[0].output
}

function assertStandIn({ type, value }, tool) {
  assert.equal(type, "text")
  assert.ok(value.startsWith("[ctxfs] ") && value.includes(`tool: ${tool}`), value)
  assert.ok(value.length < 8192, value)
}

function outputs(dir) {
  const tool = join(dir, "store/context/v7/artifacts/tool")
  try {
    return readdirSync(tool).map((name) => [name, readFileSync(join(tool, name), "utf8")])
  } catch {
    return []
  }
}

async function test(name, hasCtxfs, check) {
  const dir = mkdtempSync(join(tmpdir(), "ctxfs-examples-"))
  mkdirSync(join(dir, "bin"))
  if (hasCtxfs) symlinkSync(process.env.PROGRAM, join(dir, "bin/ctxfs"))
  Object.assign(process.env, { PATH: `${dir}/bin:/usr/bin:/bin`, CTXFS_STORE: `${dir}/store`, XDG_STATE_HOME: `${dir}/state` })
  try {
    await check(dir)
    console.log(`ok ${name}`)
  } catch (error) {
    console.error(error)
    console.log(`FAILED ${name}`)
  } finally {
    rmSync(dir, { recursive: true })
  }
}

await test("a_long_output_is_kept", true, async (dir) => {
  const output = await ask("big")
  assertStandIn(output, "ai/big")
  assert.ok(output.value.includes("ERROR: the real reason"), output.value)
  assert.deepEqual(outputs(dir), [["call_0.txt", LONG]])
})
await test("an_object_is_kept_as_json", true, async (dir) => {
  assertStandIn(await ask("table"), "ai/table")
  assert.deepEqual(outputs(dir), [["call_0.json", JSON.stringify(ROWS)]])
})
await test("a_short_output_is_left_alone", true, async (dir) => {
  assert.deepEqual(await ask("small"), { type: "text", value: SHORT })
  assert.deepEqual(outputs(dir), [])
})
await test("a_failure_is_told", true, async (dir) => {
  assert.deepEqual(await ask("fail"), { type: "error-text", value: "no such table" })
  assert.deepEqual(outputs(dir), [])
})
await test("without_ctxfs", false, async (dir) => {
  assert.deepEqual(await ask("big"), { type: "text", value: LONG })
  assert.deepEqual(await ask("table"), { type: "json", value: ROWS })
  assert.deepEqual(outputs(dir), [])
})
