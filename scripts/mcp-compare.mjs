// Drives published MCP servers directly and through `ctxfs mcp`, with the official client, and
// compares what they say. Arguments: PROGRAM, and a directory with the packages.
import { createRequire } from "node:module";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { isDeepStrictEqual } from "node:util";

const [program, packages] = process.argv.slice(2);
const require = createRequire(path.join(packages, "package.json"));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const types = require("@modelcontextprotocol/sdk/types.js");

const scratch = mkdtempSync(path.join(tmpdir(), "ctxfs-mcp-"));
const files = mkdtempSync(path.join(tmpdir(), "ctxfs-mcp-files-"));
writeFileSync(path.join(files, "small.txt"), "small\n");
const long = Array.from({ length: 4000 }, (_, n) => `line ${n}: caf\u00e9 \u{1f600} "quoted"\n`).join("");
writeFileSync(path.join(files, "long.txt"), long);
writeFileSync(path.join(files, "big.txt"), long.repeat(20));

let passed = 0;
let failed = 0;
function check(what, good, ...details) {
    good ? passed++ : failed++;
    if (!good) console.log("FAILED", what, ...details.map((one) => JSON.stringify(one)?.slice(0, 1500)));
}

async function connect(command, args) {
    const client = new Client({ name: "compare", version: "1" }, {
        capabilities: { sampling: {}, elicitation: {}, roots: { listChanged: true } },
    });
    const heard = [];
    client.setRequestHandler(types.CreateMessageRequestSchema, () => ({
        role: "assistant", model: "m", content: { type: "text", text: "sampled" },
    }));
    client.setRequestHandler(types.ElicitRequestSchema, () => ({ action: "decline" }));
    client.setRequestHandler(types.ListRootsRequestSchema, () => ({
        roots: [{ uri: `file://${files}`, name: "files" }],
    }));
    client.fallbackNotificationHandler = async (one) => void heard.push(one.method);
    const transport = new StdioClientTransport({ command, args, stderr: "ignore", env: {
        ...process.env, MEMORY_FILE_PATH: path.join(mkdtempSync(path.join(tmpdir(), "ctxfs-mcp-memory-")), "memory.jsonl"),
    } });
    await client.connect(transport);
    return { client, heard };
}

const outcome = async (work) => {
    try {
        return { result: await work() };
    } catch (error) {
        return { error: { code: error.code, message: error.message } };
    }
};

// What differs between two runs of a server without a gateway.
const steady = (value) =>
    JSON.parse(JSON.stringify(value, (key, inner) =>
        typeof inner === "string"
            ? inner.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z|\d+:\d\d:\d\d( [AP]M)?/g, "TIME")
            : inner));

const own = (name) => name.startsWith("context_");

async function compare(name, command, args, calls, prompts = []) {
    const gateway = ["mcp", "--store", path.join(scratch, name), "-c", "c7", "--", command, ...args];
    const one = await connect(command, args);
    const other = await connect(program, gateway);
    const [direct, through] = [one.client, other.client];
    const same = (what, a, b) =>
        check(`${name}: ${what}`, isDeepStrictEqual(steady(a), steady(b)), steady(a), steady(b));

    same("server", direct.getServerVersion(), through.getServerVersion());
    const { tools: t1, resources: r1, ...capabilities } = direct.getServerCapabilities();
    const { tools: t2, resources: r2, ...others } = through.getServerCapabilities();
    same("capabilities", capabilities, others);
    same("tools capability", t1 ?? {}, t2);
    same("resources capability", r1 ?? {}, r2);
    const told = through.getInstructions() ?? "";
    check(`${name}: instructions`, told.startsWith(direct.getInstructions() ?? ""), told);

    const listed = (await direct.listTools()).tools.map(({ outputSchema, ...tool }) => tool);
    const relayed = (await through.listTools()).tools;
    same("tools", listed, relayed.filter((tool) => !own(tool.name)));
    check(`${name}: context tools`, relayed.filter((tool) => own(tool.name)).length === 5);
    for (const [what, list] of [
        ["prompts", (client) => client.listPrompts()],
        ["resources", (client) => client.listResources()],
        ["templates", (client) => client.listResourceTemplates()],
    ]) {
        const [a, b] = [await outcome(() => list(direct)), await outcome(() => list(through))];
        const rows = b.result?.resources ?? b.result?.resourceTemplates;
        if (rows) {
            const kept = rows.filter((row) => !(row.uri ?? row.uriTemplate).startsWith("ctx://"));
            rows.splice(0, rows.length, ...kept);
        }
        if (a.error && rows?.length === 0) passed++;
        else same(what, a, b);
    }
    for (const [tool, args, options] of calls) {
        const run = (client) =>
            outcome(() => client.callTool({ name: tool, arguments: args }, undefined, options?.(client)));
        const [a, b] = [await run(direct), await run(through)];
        const size = (a.result?.content ?? []).reduce((sum, block) =>
            sum + (block.text ?? block.resource?.text ?? "").length, 0);
        if (size <= 4000) {
            same(`${tool} ${JSON.stringify(args)}`, a, b);
            continue;
        }
        const link = b.result.content.find((block) => block.type === "resource_link");
        const stored = readFileSync(path.join(scratch, name, "context", link.uri.slice("ctx://".length)), "utf8");
        const text = a.result.content.find((block) => (block.text ?? "").length > 4000)?.text;
        check(`${name}: ${tool} stored`, stored === text, link);
        check(`${name}: ${tool} short`, JSON.stringify(b.result).length < 10_000, b.result);
    }
    for (const [prompt, args] of prompts) {
        const run = (client) => outcome(() => client.getPrompt({ name: prompt, arguments: args }));
        same(`prompt ${prompt}`, await run(direct), await run(through));
    }
    const { resources = [] } = (await outcome(() => direct.listResources())).result ?? {};
    for (const { uri } of resources.slice(0, 3)) {
        const run = (client) => outcome(() => client.readResource({ uri }));
        same(`resource ${uri}`, await run(direct), await run(through));
    }
    const bad = { method: "no/such", params: {} };
    const unknown = (client) => outcome(() => client.request(bad, types.EmptyResultSchema));
    same("unknown method", await unknown(direct), await unknown(through));
    await direct.close();
    await through.close();
}

const bin = (name) => path.join(packages, "node_modules/.bin", `mcp-server-${name}`);
const steps = [];
await compare("everything", bin("everything"), [], [
    ["echo", { message: "caf\u00e9 \u{1f600}" }],
    ["get-sum", { a: 2, b: 3.5 }],
    ["get-sum", { a: "x" }],
    ["get-tiny-image", {}],
    ["get-annotated-message", { messageType: "error", includeImage: true }],
    ["get-structured-content", { location: "Chicago" }],
    ["get-resource-links", { count: 3 }],
    ["get-resource-reference", { resourceType: "Text", resourceId: 1 }],
    ["get-roots-list", {}],
    ["trigger-sampling-request", { prompt: "hi", maxTokens: 10 }],
    ["trigger-elicitation-request", {}],
    ["trigger-long-running-operation", { duration: 1, steps: 4 }, () => ({
        onprogress: ({ progress, total }) => steps.push([progress, total]),
    })],
    ["nothing-like-this", {}],
], [
    ["simple-prompt", {}],
    ["args-prompt", { city: "Oslo", state: "x" }],
    ["nothing-like-this", {}],
]);
// The client itself loses the last step now and then, if the answer comes with it.
check("everything: progress", isDeepStrictEqual(steps.slice(-3), [[2, 4], [3, 4], [4, 4]])
    || isDeepStrictEqual(steps.slice(-3), [[1, 4], [2, 4], [3, 4]]), steps);
await compare("filesystem", bin("filesystem"), [files], [
    ["list_allowed_directories", {}],
    ["read_text_file", { path: path.join(files, "small.txt") }],
    ["read_text_file", { path: path.join(files, "long.txt") }],
    ["read_text_file", { path: path.join(files, "big.txt") }],
    ["read_text_file", { path: "/etc/passwd" }],
    ["list_directory", { path: files }],
    ["search_files", { path: files, pattern: "*.txt" }],
]);
await compare("memory", bin("memory"), [], [
    ["create_entities", { entities: [{ name: "a", entityType: "t", observations: ["o"] }] }],
    ["search_nodes", { query: "a" }],
    ["delete_entities", { entityNames: ["a"] }],
]);
await compare("sequential-thinking", bin("sequential-thinking"), [], [
    ["sequentialthinking", { thought: "x", nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 }],
]);

// The time that the gateway adds to a small call.
const median = async (client) => {
    const times = [];
    for (let n = 0; n < 500; n++) {
        const before = performance.now();
        await client.callTool({ name: "echo", arguments: { message: "x" } });
        times.push(performance.now() - before);
    }
    return times.sort((a, b) => a - b)[250];
};
const plain = await connect(bin("everything"), []);
const gated = await connect(program, ["mcp", "--store", path.join(scratch, "t"), "--", bin("everything")]);
const medians = [];
for (let round = 0; round < 3; round++) medians.push([await median(plain.client), await median(gated.client)]);
console.log("median of a small call, directly and through the gateway, in ms:",
    medians.map(([a, b]) => `${a.toFixed(3)} ${b.toFixed(3)}`).join(", "));
await plain.client.close();
await gated.client.close();

console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
