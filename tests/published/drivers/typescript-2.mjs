// The TypeScript client of version 2. The third argument is the mode in which it finds a revision.
import { createRequire } from "node:module";
import path from "node:path";
import { main } from "./conversation.mjs";

const require = createRequire(path.join(process.argv[2], "package.json"));
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const mode = process.argv[4];

await main({
    client: (options) => new Client({ name: "published", version: "1" }, { ...options, versionNegotiation: { mode } }),
    answer: (client, method, answer) => client.setRequestHandler(method, answer),
    stdio: (options) => new StdioClientTransport(options),
    http: (url) => new StreamableHTTPClientTransport(url),
    revision: (client) => client.getNegotiatedProtocolVersion(),
    call: (client, params, options) => client.callTool(params, options),
    unknown: (client) => client.getPrompt({ name: "no-such-prompt" }),
});
