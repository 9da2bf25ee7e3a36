// ctxfs for pi: written by `ctxfs install`, and replaced by it.
//
// Hands the result of each tool to `ctxfs hook pi`. If it is long, it is stored, and the model gets
// the stand-in that the hook answers with. Whatever fails leaves the result as it is.
import { spawnSync } from "node:child_process";

const PROGRAM = "/usr/bin/ctxfs";
const ARGUMENTS = ["hook", "pi"];
const OWN_FILES = ["read", "edit", "write"];

function ask(message: object): string | undefined {
  try {
    const run = spawnSync(PROGRAM, ARGUMENTS, {
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
  // Why the session goes on, until the model was told what is stored.
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
  const pointers = (event: string, context: any) => {
    const content = ask({ conv: context.sessionManager.getSessionId(), event });
    return content && { customType: "ctxfs", content, display: false };
  };
  on("tool_result", (result, context) => {
    if (OWN_FILES.includes(result.toolName)) return;
    return keep(result, context.sessionManager.getSessionId());
  });
  on("session_start", (start) => {
    // `pi --continue` says `startup`, too; a session that is new has nothing stored.
    event = ["fork", "new"].includes(start?.reason) ? start.reason : "resume";
  });
  on("before_agent_start", (_start, context) => {
    const message = event && pointers(event, context);
    event = undefined;
    if (message) return { message };
  });
  on("session_before_compact", (_start, context) => {
    const manager = context.sessionManager;
    const path = manager.getSessionFile();
    if (path) ask({ conv: manager.getSessionId(), event: "messages", path });
  });
  // The next prompt may have begun before the compaction ends.
  on("session_compact", (_compaction, context) => {
    const message = pointers("compact", context);
    if (message) pi.sendMessage(message);
  });
}
