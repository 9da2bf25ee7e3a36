// Runs scenarios for servers in an order, all in this process: to start one takes longer than most scenarios.
//
// Arguments: the suite, the URL of the server, and a file with rows of a revision, a scenario and the directory for its
// results.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [node, , suite, url, file] = process.argv;
const exit = process.exit;

for (const [number, [revision, name, results]] of JSON.parse(readFileSync(file, "utf8")).entries()) {
    const which = ["--spec-version", revision, "--scenario", name];
    process.argv = [node, suite, "server", ...which, "--url", url, "--output-dir", results];
    const ended = new Promise((resolve) => (process.exit = resolve));
    // A module of another address begins anew.
    await import(`${pathToFileURL(suite)}?${number}`);
    await ended;
}
exit(0);
