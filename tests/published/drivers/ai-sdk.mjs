// The client of the AI SDK, which has no code of the official ones. It asks for no progress, and lets nobody sample.
import path from "node:path";
import { pathToFileURL } from "node:url";
import { main } from "./conversation.mjs";

const load = (file) => import(pathToFileURL(path.join(process.argv[2], "node_modules/@ai-sdk/mcp/dist", file)));
const { createMCPClient, ElicitationRequestSchema } = await load("index.js");
const { StdioMCPTransport } = await load("mcp-stdio/index.js");

class Client {
    constructor(options) {
        this.options = { capabilities: { elicitation: options.capabilities.elicitation }, clientName: "published" };
    }

    async connect(transport) {
        // Else it would take a server that needs a second to start for an old one.
        transport.waitsForProtocolVersionDiscovery = true;
        this.inner = await createMCPClient({ ...this.options, transport });
        if (this.decline) this.inner.onElicitationRequest(ElicitationRequestSchema, this.decline);
    }

    getServerVersion = () => this.inner.serverInfo;
    getServerCapabilities = () => this.inner.initializeResult.capabilities;
    getInstructions = () => this.inner.instructions;
    listTools = () => this.inner.listTools();
    listPrompts = () => this.inner.listPrompts();
    listResources = () => this.inner.listResources();
    listResourceTemplates = () => this.inner.listResourceTemplates();
    getPrompt = (params) => this.inner.getPrompt(params);
    readResource = (params) => this.inner.readResource(params);
    close = () => this.inner.close();
}

await main({
    client: (options) => new Client(options),
    answer: (client, method, answer) => {
        if (method === "elicitation/create") client.decline = answer;
    },
    stdio: (options) => new StdioMCPTransport(options),
    http: (url) => ({ type: "http", url: url.href }),
    revision: (client) => client.inner.initializeResult.protocolVersion,
    call: (client, params) => client.inner.callTool(params),
    unknown: (client) => client.getPrompt({ name: "no-such-prompt" }),
});
