// What the public conformance suite asks of a server of 2026-07-28: each request says all that is needed, and a result
// may ask for input.
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

export const REVISION = "2026-07-28";
const KEY = "io.modelcontextprotocol/";
const SECRET = randomBytes(32);
// The requests whose results a client may keep, and those that another call of the same server answers too.
const KEPT = ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read", "server/discover"];
const CARRIED = [...KEPT.slice(2, 5), "prompts/get", "completion/complete", "tools/call"];

class Refusal extends Error {
    constructor(code, message, data) {
        super(message);
        this.error = { code, message, ...(data && { data }) };
    }
}

const text = (text) => ({ content: [{ type: "text", text }] });
const form = (message, name, type = "string") => ({
    method: "elicitation/create",
    params: { message, requestedSchema: { type: "object", properties: { [name]: { type } }, required: [name] } },
});
const sample = (text) => ({
    method: "sampling/createMessage",
    params: { messages: [{ role: "user", content: { type: "text", text } }], maxTokens: 50 },
});
const roots = { method: "roots/list", params: {} };

const digest = (text) => createHmac("sha256", SECRET).update(text).digest("base64url");
const sealed = (value) => {
    const body = Buffer.from(JSON.stringify(value)).toString("base64url");
    return `${body}.${digest(body)}`;
};
const opened = (state) => {
    const [body, seal = ""] = String(state).split(".");
    const expected = digest(body);
    if (seal.length !== expected.length || !timingSafeEqual(Buffer.from(seal), Buffer.from(expected))) {
        throw new Refusal(-32602, "the requestState was changed");
    }
    return JSON.parse(Buffer.from(body, "base64url"));
};
const ask = (inputRequests, state) => ({
    resultType: "input_required", inputRequests, ...(state && { requestState: sealed(state) }),
});
const accepted = (answer, name) => answer?.action === "accept" && typeof answer.content?.[name] === "string";

// Each tool and prompt that asks, by its name: what it does with the answers, the state and the capabilities.
const asking = {
    test_input_required_result_elicitation: ({ user_name }) => accepted(user_name, "name")
        ? text(`Hello, ${user_name.content.name}!`) : ask({ user_name: form("What is your name?", "name") }),
    test_input_required_result_sampling: ({ capital_question }) => capital_question
        ? text(capital_question.content?.text ?? "") : ask({ capital_question: sample("What is the capital of France?") }),
    test_input_required_result_list_roots: ({ client_roots }) => client_roots
        ? text(`${client_roots.roots?.length} roots`) : ask({ client_roots: roots }),
    test_input_required_result_request_state: ({ confirm }, state) => state && confirm
        ? text("state-ok") : ask({ confirm: form("Please confirm", "ok", "boolean") }, { confirms: true }),
    test_input_required_result_multiple_inputs: ({ user_name, greeting, client_roots }, state) =>
        state && user_name && greeting && client_roots
            ? text(`${greeting.content?.text} ${user_name.content?.name}, ${client_roots.roots?.length} roots`)
            : ask({ user_name: form("What is your name?", "name"), greeting: sample("Greet"), client_roots: roots }, { all: true }),
    test_input_required_result_multi_round: ({ step1, step2 }, state) => {
        if (state?.round === 2 && step2) return text(`${state.name} likes ${step2.content?.color}`);
        if (state?.round === 1 && step1) {
            return ask({ step2: form("Which colour?", "color") }, { round: 2, name: step1.content?.name });
        }
        return ask({ step1: form("What is your name?", "name") }, { round: 1 });
    },
    test_input_required_result_tampered_state: ({ confirm }, state) => state && confirm
        ? text("integrity-ok") : ask({ confirm: form("Please confirm", "ok", "boolean") }, { sealed: true }),
    test_input_required_result_capabilities: (answers, _, capabilities) => {
        if (Object.keys(answers).length) return text("capabilities-ok");
        const all = { elicitation: form("A value?", "value"), sampling: sample("Sample") };
        const able = Object.entries(all).filter(([name]) => capabilities[name]);
        return able.length ? ask(Object.fromEntries(able), { able: true }) : text("nothing can be asked");
    },
    test_input_required_result_prompt: ({ user_context }) => user_context
        ? { messages: [{ role: "user", content: { type: "text", text: `Context: ${user_context.content?.context}` } }] }
        : ask({ user_context: form("Which context?", "context") }),
    test_streaming_elicitation: () => ask({ user_name: form("What is your name?", "name") }),
    test_missing_capability: (_, __, capabilities) => {
        if (capabilities.sampling) return text("sampled");
        throw new Refusal(-32021, "sampling is needed", { requiredCapabilities: { sampling: {} } });
    },
    test_logging_tool: () => text("logged"),
};
const PROMPT = "test_input_required_result_prompt";
const CHANGES = { test_trigger_tool_change: "tools", test_trigger_prompt_change: "prompts" };

/** Answers requests. `old` hands a request to the server of older revisions, and returns its result. */
export class Modern {
    listeners = new Map();

    constructor(old) {
        this.old = old;
    }

    /** Answers a request, by messages that `send` takes. */
    async answer({ id, method, params = {} }, send) {
        try {
            const result = await this.result(id, method, params, send);
            const kept = KEPT.includes(method) && { ttlMs: 300000, cacheScope: "public" };
            if (result) send({ jsonrpc: "2.0", id, result: { resultType: "complete", ...kept, ...result } });
        } catch (error) {
            send({ jsonrpc: "2.0", id, error: error.error ?? { code: error.code ?? -32603, message: error.message } });
        }
    }

    async result(id, method, params, send) {
        const meta = params._meta ?? {};
        const capabilities = meta[`${KEY}clientCapabilities`];
        if (typeof meta[`${KEY}protocolVersion`] !== "string" || typeof capabilities !== "object") {
            throw new Refusal(-32602, "the _meta lacks something");
        }
        if (meta[`${KEY}protocolVersion`] !== REVISION) {
            const requested = meta[`${KEY}protocolVersion`];
            throw new Refusal(-32022, "the revision is not known", { supported: [REVISION], requested });
        }
        if (method === "server/discover") return this.discovered();
        if (method === "subscriptions/listen") return this.listen(id, params.notifications ?? {}, send);
        const list = { "tools/list": "tools", "prompts/list": "prompts" }[method];
        if (list) {
            const { [list]: known } = await this.old({ method, params: {} }, () => {});
            return { [list]: [...known, ...this.more(list)] };
        }
        if (CHANGES[params.name]) return this.changed(CHANGES[params.name]);
        if (asking[params.name] && (method === "prompts/get") === (params.name === PROMPT)) {
            const state = params.requestState === undefined ? undefined : opened(params.requestState);
            return asking[params.name](params.inputResponses ?? {}, state, capabilities);
        }
        if (!CARRIED.includes(method)) throw new Refusal(-32601, `there is no ${method}`);
        return this.carried(method, params, send);
    }

    async carried(method, params, send) {
        const { progressToken } = params._meta;
        const tell = (method, params) => method !== "notifications/message" && send({ jsonrpc: "2.0", method, params });
        const own = { ...params, _meta: progressToken === undefined ? undefined : { progressToken } };
        try {
            return await this.old({ method, params: own }, tell);
        } catch (error) {
            if (error.code === -32002) throw new Refusal(-32602, error.message, { uri: params.uri });
            throw error;
        }
    }

    discovered() {
        const capabilities = { tools: { listChanged: true }, prompts: { listChanged: true }, resources: {}, completions: {} };
        const serverInfo = { name: "conformance", version: "1.0.0" };
        return { supportedVersions: [REVISION], capabilities, _meta: { [`${KEY}serverInfo`]: serverInfo } };
    }

    more(list) {
        if (list === "prompts") return [{ name: PROMPT, description: "Asks for a context" }];
        const names = [...Object.keys(asking), ...Object.keys(CHANGES)].filter((name) => name !== PROMPT);
        return names.map((name) => ({ name, description: `Tests ${name}`, inputSchema: { type: "object", properties: {} } }));
    }

    listen(id, asked, send) {
        const wanted = ["tools", "prompts"].filter((list) => asked[`${list}ListChanged`]);
        const tell = (method, params) =>
            send({ jsonrpc: "2.0", method, params: { ...params, _meta: { [`${KEY}subscriptionId`]: String(id) } } });
        const notifications = Object.fromEntries(wanted.map((list) => [`${list}ListChanged`, true]));
        tell("notifications/subscriptions/acknowledged", { notifications });
        this.listeners.set(send, (list) => wanted.includes(list) && tell(`notifications/${list}/list_changed`, {}));
    }

    changed(list) {
        for (const tell of this.listeners.values()) tell(list);
        return text("changed");
    }

    /** Notes that nobody reads what `send` sends. */
    closed(send) {
        this.listeners.delete(send);
    }

    /** Returns the status of an answer over HTTP. */
    static status({ error }) {
        if (!error) return 200;
        if (error.code === -32601) return 404;
        return [-32022, -32021, -32020].includes(error.code) ? 400 : 200;
    }
}
