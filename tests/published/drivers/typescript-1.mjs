// The TypeScript client of version 1.
import { createRequire } from "node:module";
import path from "node:path";
import { main } from "./conversation.mjs";

const require = createRequire(path.join(process.argv[2], "package.json"));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const types = require("@modelcontextprotocol/sdk/types.js");

const schemas = {
    "sampling/createMessage": types.CreateMessageRequestSchema,
    "elicitation/create": types.ElicitRequestSchema,
    "roots/list": types.ListRootsRequestSchema,
};

await main({
    client: (options) => new Client({ name: "published", version: "1" }, options),
    answer: (client, method, answer) => client.setRequestHandler(schemas[method], answer),
    stdio: (options) => new StdioClientTransport(options),
    http: (url) => new StreamableHTTPClientTransport(url),
    // Over stdio, the client keeps it to itself.
    revision: (_, transport) => transport.protocolVersion,
    call: (client, params, options) => client.callTool(params, undefined, options),
    unknown: (client) => client.request({ method: "no/such", params: {} }, types.EmptyResultSchema),
});
