// Holds a conversation with each server of a job, and prints what was heard as JSON.
//
// Arguments: the directory of the packages, and a file with the job: `{servers: [{name, command,
// args, env, url, calls, prompts, least}], roots}`, where `least` is the number of tools to wait for.
// `sdk` says what the client of a version needs.
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const SECONDS = 60;

// Standard output is for the answer alone.
for (const name of ["log", "info", "debug"]) console[name] = console.error;

export async function main(sdk) {
    const job = JSON.parse(readFileSync(process.argv[3], "utf8"));
    const heard = await Promise.all(job.servers.map(async (server) => {
        try {
            return [server.name, await within(SECONDS, hear(sdk, server, job.roots))];
        } catch (error) {
            return [server.name, { failed: String(error?.stack ?? error) }];
        }
    }));
    process.stdout.write(JSON.stringify(Object.fromEntries(heard)));
    process.exit(0);
}

async function hear(sdk, server, roots) {
    const client = sdk.client({ capabilities: { sampling: {}, elicitation: {}, roots: { listChanged: true } } });
    const answers = {
        "sampling/createMessage": { role: "assistant", model: "m", content: { type: "text", text: "sampled" } },
        "elicitation/create": { action: "decline" },
        "roots/list": { roots: [{ uri: `file://${roots}`, name: "files" }] },
    };
    for (const [method, answer] of Object.entries(answers)) sdk.answer(client, method, () => answer);
    const transport = server.url
        ? sdk.http(new URL(server.url))
        : sdk.stdio({ command: server.command, args: server.args, env: server.env, stderr: "ignore" });
    await client.connect(transport);
    const steps = [];
    hearSteps(transport, steps);
    const heard = {
        revision: sdk.revision(client, transport),
        server: client.getServerVersion(),
        capabilities: client.getServerCapabilities(),
        instructions: client.getInstructions(),
        tools: await tools(client, server.least),
        prompts: await outcome(() => client.listPrompts()),
        resources: await outcome(() => client.listResources()),
        templates: await outcome(() => client.listResourceTemplates()),
        calls: [],
        got: [],
        read: [],
    };
    for (const [name, args] of server.calls) {
        const options = name.includes("long-running") ? { onprogress: () => {} } : {};
        heard.calls.push(await outcome(() => sdk.call(client, { name, arguments: args }, options)));
    }
    for (const [name, args] of server.prompts) {
        heard.got.push(await outcome(() => client.getPrompt({ name, arguments: args })));
    }
    const listed = (heard.resources.result?.resources ?? []).filter(({ uri }) => !uri.startsWith("ctx://"));
    for (const { uri } of listed.slice(0, 3)) heard.read.push(await outcome(() => client.readResource({ uri })));
    heard.unknown = await outcome(() => sdk.unknown(client));
    heard.progress = steps;
    await client.close();
    return heard;
}

// As they reach the transport: the clients drop the steps that they read together with the answer.
function hearSteps(transport, steps) {
    const next = transport.onmessage;
    transport.onmessage = (message, ...more) => {
        const { method, params } = message;
        if (method === "notifications/progress") steps.push([params.progress, params.total]);
        next.call(transport, message, ...more);
    };
}

// Servers behind a gateway may come late.
async function tools(client, least) {
    for (;;) {
        const listed = await outcome(() => client.listTools());
        if (listed.error || listed.result.tools.length >= least) return listed;
        await sleep(200);
    }
}

async function outcome(work) {
    try {
        return { result: await work() };
    } catch (error) {
        return { error: { code: error.code, message: error.message } };
    }
}

function within(seconds, work) {
    const late = new Promise((_, reject) => {
        setTimeout(() => reject(new Error(`not done in ${seconds} s`)), seconds * 1000).unref();
    });
    return Promise.race([work, late]);
}
