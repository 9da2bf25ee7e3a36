// A server with all that the public conformance suite asks a server for.
//
// Arguments: the directory of the packages, and `stdio` or a port for streamable HTTP.
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { elicitations } from "./elicitations.mjs";

const [packages, place] = process.argv.slice(2);
const require = createRequire(path.join(packages, "package.json"));
const { Server } = require("@modelcontextprotocol/sdk/server/index.js");
const { StdioServerTransport } = require("@modelcontextprotocol/sdk/server/stdio.js");
const { StreamableHTTPServerTransport } = require("@modelcontextprotocol/sdk/server/streamableHttp.js");
const { createMcpExpressApp } = require("@modelcontextprotocol/sdk/server/express.js");
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

function serveHttp(port) {
    const sessions = new Map();
    const app = createMcpExpressApp();
    app.all("/mcp", async (request, response) => {
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

if (place === "stdio") await created().connect(new StdioServerTransport());
else serveHttp(Number(place));
