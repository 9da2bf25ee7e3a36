// A server with all that the public conformance suite asks a server for, in revisions before 2026-07-28 and since.
//
// Arguments: the directory of the packages, and `stdio` or a port for streamable HTTP.
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import path from "node:path";
import readline from "node:readline";
import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { elicitations } from "./elicitations.mjs";
import { Modern, REVISION } from "./modern.mjs";

const [packages, place] = process.argv.slice(2);
const require = createRequire(path.join(packages, "package.json"));
const { Server } = require("@modelcontextprotocol/sdk/server/index.js");
const { StdioServerTransport } = require("@modelcontextprotocol/sdk/server/stdio.js");
const { StreamableHTTPServerTransport } = require("@modelcontextprotocol/sdk/server/streamableHttp.js");
const { createMcpExpressApp } = require("@modelcontextprotocol/sdk/server/express.js");
const { InMemoryTransport } = require("@modelcontextprotocol/sdk/inMemory.js");
const types = require("@modelcontextprotocol/sdk/types.js");

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";

const text = (text) => ({ type: "text", text });
const image = { type: "image", data: PNG, mimeType: "image/png" };
const embedded = (uri, mimeType, text) => ({ type: "resource", resource: { uri, mimeType, text } });
const only = (...content) => async () => ({ content });

// Each tool by its name: what it does with its arguments, the server and the request.
const tools = {
    test_simple_text: only(text("This is a simple text response for testing.")),
    test_image_content: only(image),
    test_audio_content: only({ type: "audio", data: WAV, mimeType: "audio/wav" }),
    test_embedded_resource: only(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")),
    test_multiple_content_types: only(
        text("Multiple content types test:"), image,
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')),
    test_tool_with_logging: async (_, server, { sendNotification }) => {
        for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
            await sendNotification({ method: "notifications/message", params: { level: "info", data } });
            await sleep(50);
        }
        return { content: [text("Tool with logging executed successfully")] };
    },
    test_tool_with_progress: async (_, server, { sendNotification, _meta }) => {
        const progressToken = _meta?.progressToken ?? 0;
        for (const progress of [0, 50, 100]) {
            const message = `Completed step ${progress} of 100`;
            const params = { progressToken, progress, total: 100, message };
            await sendNotification({ method: "notifications/progress", params });
            await sleep(50);
        }
        return { content: [text(String(progressToken))] };
    },
    test_error_handling: async () => ({
        isError: true, content: [text("This tool intentionally returns an error for testing")],
    }),
    test_reconnection: async () => {
        await sleep(100);
        return { content: [text("Reconnection test completed successfully.")] };
    },
    test_sampling: async ({ prompt }, server, { sendRequest }) => {
        const messages = [{ role: "user", content: text(prompt) }];
        const request = { method: "sampling/createMessage", params: { messages, maxTokens: 100 } };
        const said = await sendRequest(request, types.CreateMessageResultSchema);
        return { content: [text(`LLM response: ${said.content.text}`)] };
    },
    test_elicitation: async ({ message }, server, extra) => {
        const response = { type: "string", description: "User's response" };
        const schema = { type: "object", properties: { response }, required: ["response"] };
        return asked("User response", await elicit(extra, message, schema));
    },
    test_elicitation_sep1034_defaults: async (_, server, extra) =>
        asked("Elicitation completed", await elicit(extra, "Please review the fields", elicitations.defaults)),
    test_elicitation_sep1330_enums: async (_, server, extra) =>
        asked("Elicitation completed", await elicit(extra, "Please select options", elicitations.enums)),
    json_schema_2020_12_tool: async (args) => ({ content: [text(`called with: ${JSON.stringify(args)}`)] }),
};

const elicit = ({ sendRequest }, message, requestedSchema) =>
    sendRequest({ method: "elicitation/create", params: { message, requestedSchema } }, types.ElicitResultSchema);

const asked = (what, { action, content = {} }) => ({
    content: [text(`${what}: action=${action}, content=${JSON.stringify(content)}`)],
});

const one = (name) => ({ type: "object", properties: { [name]: { type: "string" } }, required: [name] });
const schemas = {
    test_sampling: one("prompt"),
    test_elicitation: one("message"),
    json_schema_2020_12_tool: {
        $schema: "https://json-schema.org/draft/2020-12/schema",
        type: "object",
        $defs: { address: { type: "object", properties: { street: { type: "string" }, city: { type: "string" } } } },
        properties: { name: { type: "string" }, address: { $ref: "#/$defs/address" } },
        additionalProperties: false,
    },
};

const resources = {
    "test://static-text": { mimeType: "text/plain", text: "This is the content of the static text resource." },
    "test://static-binary": { mimeType: "image/png", blob: PNG },
    "test://watched-resource": { mimeType: "text/plain", text: "Watched resource content" },
};

const user = (content) => ({ role: "user", content });
const prompts = {
    test_simple_prompt: [[], () => [user(text("This is a simple prompt for testing."))]],
    test_prompt_with_arguments: [["arg1", "arg2"], ({ arg1, arg2 }) =>
        [user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))]],
    test_prompt_with_embedded_resource: [["resourceUri"], ({ resourceUri }) => [
        user(embedded(resourceUri, "text/plain", "Embedded resource content for testing.")),
        user(text("Please process the embedded resource above."))]],
    test_prompt_with_image: [[], () => [user(image), user(text("Please analyze the image above."))]],
};

function created() {
    const capabilities = {
        tools: { listChanged: true }, resources: { subscribe: true, listChanged: true },
        prompts: { listChanged: true }, logging: {}, completions: {},
    };
    const server = new Server({ name: "conformance", version: "1.0.0" }, { capabilities });
    const answer = (schema, handler) => server.setRequestHandler(schema, handler);
    answer(types.ListToolsRequestSchema, () => ({
        tools: Object.keys(tools).map((name) => ({
            name, description: `Tests ${name}`, inputSchema: schemas[name] ?? { type: "object", properties: {} },
        })),
    }));
    answer(types.CallToolRequestSchema, ({ params }, extra) => {
        const tool = tools[params.name];
        if (!tool) throw new types.McpError(types.ErrorCode.InvalidParams, `Unknown tool: ${params.name}`);
        return tool(params.arguments ?? {}, server, extra);
    });
    answer(types.ListResourcesRequestSchema, () => ({
        resources: Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, name: uri, description: uri, mimeType })),
    }));
    answer(types.ListResourceTemplatesRequestSchema, () => ({
        resourceTemplates: [{ uriTemplate: "test://template/{id}/data", name: "template", mimeType: "application/json" }],
    }));
    answer(types.ReadResourceRequestSchema, ({ params: { uri } }) => ({ contents: [contents(uri)] }));
    answer(types.SubscribeRequestSchema, () => ({}));
    answer(types.UnsubscribeRequestSchema, () => ({}));
    answer(types.ListPromptsRequestSchema, () => ({
        prompts: Object.entries(prompts).map(([name, [names]]) => ({
            name, description: `Tests ${name}`,
            arguments: names.map((name) => ({ name, description: name, required: true })),
        })),
    }));
    answer(types.GetPromptRequestSchema, ({ params }) => {
        const prompt = prompts[params.name];
        if (!prompt) throw new types.McpError(types.ErrorCode.InvalidParams, `Unknown prompt: ${params.name}`);
        return { messages: prompt[1](params.arguments ?? {}) };
    });
    answer(types.SetLevelRequestSchema, () => ({}));
    answer(types.CompleteRequestSchema, () => ({ completion: { values: [], total: 0, hasMore: false } }));
    return server;
}

function contents(uri) {
    if (resources[uri]) return { uri, ...resources[uri] };
    const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
    if (!id) throw new types.McpError(-32002, `Resource not found: ${uri}`);
    return { uri, mimeType: "application/json", text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) };
}

// Returns the result of a request to a server of the older revisions; `tell` gets the notifications before it.
async function old(request, tell) {
    const [here, there] = InMemoryTransport.createLinkedPair();
    const [server, waiting] = [created(), new Map()];
    await server.connect(there);
    here.onmessage = (message) => message.method ? tell(message.method, message.params) : waiting.get(message.id)(message);
    await here.start();
    const ask = (id, message) => new Promise((resolve) => {
        waiting.set(id, resolve);
        here.send({ jsonrpc: "2.0", id, ...message });
    });
    try {
        const clientInfo = { name: "conformance", version: "1.0.0" };
        await ask(0, { method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo } });
        await here.send({ jsonrpc: "2.0", method: "notifications/initialized" });
        const { error, result } = await ask(1, request);
        if (error) throw error;
        return result;
    } finally {
        await server.close();
    }
}

const versionIn = (message) => message?.params?._meta?.["io.modelcontextprotocol/protocolVersion"];

// Returns what is wrong with the headers of a request, or with what they repeat.
function flaw({ headers, body }) {
    const { method, params = {} } = body;
    const name = { "tools/call": params.name, "prompts/get": params.name, "resources/read": params.uri }[method];
    const said = [["mcp-method", method], ["mcp-name", name], ["mcp-protocol-version", versionIn(body)]];
    const other = said.find(([header, value]) => value !== undefined && headers[header] !== value);
    if (other) return { code: -32020, message: `${other[0]} does not say what the body says` };
    const meta = params._meta ?? {};
    if (!versionIn(body) || !meta["io.modelcontextprotocol/clientCapabilities"]) {
        return { code: -32602, message: "the _meta lacks something" };
    }
}

async function answerModern(modern, request, response) {
    const error = flaw(request);
    if (error) return response.status(400).json({ jsonrpc: "2.0", id: request.body.id ?? null, error });
    const send = (message) => {
        const isLast = message.method === undefined;
        if (isLast && !response.headersSent) return response.status(Modern.status(message)).json(message);
        if (!response.headersSent) response.writeHead(200, { "content-type": "text/event-stream" });
        response.write(`data: ${JSON.stringify(message)}\n\n`);
        if (isLast) response.end();
    };
    response.on("close", () => modern.closed(send));
    await modern.answer(request.body, send);
}

function serveHttp(port) {
    const [sessions, modern] = [new Map(), new Modern(old)];
    const app = createMcpExpressApp();
    app.all("/mcp", async (request, response) => {
        const version = request.headers["mcp-protocol-version"];
        if (version === REVISION || versionIn(request.body)) return answerModern(modern, request, response);
        let transport = sessions.get(request.headers["mcp-session-id"]);
        if (!transport && request.body?.method === "initialize") {
            transport = new StreamableHTTPServerTransport({
                sessionIdGenerator: randomUUID,
                onsessioninitialized: (id) => sessions.set(id, transport),
            });
            await created().connect(transport);
        }
        if (transport) return transport.handleRequest(request, response, request.body);
        const error = { code: -32000, message: "Invalid or missing session ID" };
        response.status(400).json({ jsonrpc: "2.0", error, id: null });
    });
    app.listen(port, "127.0.0.1");
}

async function serveStdio() {
    const [older, modern, open] = [new PassThrough(), new Modern(old), new Map()];
    readline.createInterface({ input: process.stdin }).on("line", (line) => {
        const message = JSON.parse(line);
        if (message.method === "notifications/cancelled") modern.closed(open.get(message.params.requestId));
        if (!versionIn(message)) return older.write(`${line}\n`);
        const send = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
        open.set(message.id, send);
        modern.answer(message, send);
    }).on("close", () => older.end());
    await created().connect(new StdioServerTransport(older, process.stdout));
}

if (place === "stdio") await serveStdio();
else serveHttp(Number(place));
