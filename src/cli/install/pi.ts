// ctxfs for pi: written by `ctxfs install`, and replaced by it.
//
// Hands the result of each tool to `ctxfs hook pi`. If it is long, it is stored, and the model gets
// the stand-in that the hook answers with. Whatever fails leaves the result as it is.
import { spawnSync } from "node:child_process";

const PROGRAM = "/usr/bin/ctxfs";
const OWN_FILES = ["read", "edit", "write"];

function ask(message: object): string | undefined {
  try {
    const run = spawnSync(PROGRAM, ["hook", "pi"], {
      input: JSON.stringify(message),
      encoding: "utf8",
      timeout: 15000,
      maxBuffer: 1 << 26,
      stdio: ["pipe", "pipe", "ignore"],
    });
    const text = run.status === 0 && run.stdout ? JSON.parse(run.stdout).text : undefined;
    return typeof text === "string" && text ? text : undefined;
  } catch {
    return undefined;
  }
}

function keep(result: any, conv: string) {
  const isText = (block: any) => block.type === "text";
  const text = result.content.filter(isText).map((block: any) => block.text).join("\n");
  const path = result.details?.fullOutputPath ?? /Full output: (\S+)\]/.exec(text)?.[1];
  const code = /Command exited with code (\d+)/.exec(text.slice(-200))?.[1];
  const exit = code === undefined ? undefined : Number(code);
  const { toolName: tool, toolCallId: call, input } = result;
  const standIn = ask({ conv, tool, call, input, text, path, exit });
  if (!standIn) return;
  const others = result.content.filter((block: any) => !isText(block));
  return { content: [{ type: "text", text: standIn }, ...others] };
}

export default function (pi: any) {
  // What the session goes on after, until the model was told what is stored.
  let event: string | undefined;
  const on = (name: string, handle: (event: any, context: any) => any) => {
    try {
      pi.on(name, async (event: any, context: any) => {
        try {
          return handle(event, context);
        } catch {}
      });
    } catch {}
  };
  on("tool_result", (result, context) => {
    if (OWN_FILES.includes(result.toolName)) return;
    return keep(result, context.sessionManager.getSessionId());
  });
  on("session_start", (start) => {
    if (["resume", "fork"].includes(start?.reason)) event = start.reason;
  });
  on("session_compact", () => {
    event = "compact";
  });
  on("before_agent_start", (_start, context) => {
    if (!event) return;
    const text = ask({ conv: context.sessionManager.getSessionId(), event });
    event = undefined;
    if (text) return { message: { customType: "ctxfs", content: text, display: false } };
  });
}
