#!/usr/bin/env node
// The acceptance run over several hosts that share a bucket: each call of a tool goes to the servers of a host that chance
// chooses, once all hosts show the same artifacts. The checks are those of the run, and know of one mount.
//
//     node hosts.mjs PROGRAM DIR,DIR,... [OPTION...]
//
// Lies beside accept.mjs, whose options it takes but for --mount. DIR/mnt is where a host mounts DIR/store; the bucket is set
// by the environment. Between two groups of checks a host is unmounted and mounted again. CTXFS_SEED is the seed of chance.
import { createHash } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readArgs } from './lib/args.mjs';
import { Report, must } from './lib/report.mjs';
import { McpServer } from './lib/mcp.mjs';
import { Oracle } from './lib/oracle.mjs';
import { Workspace } from './lib/workspace.mjs';
import * as write from './groups/write.mjs';
import * as views from './groups/views.mjs';
import * as grep from './groups/grep.mjs';
import * as list from './groups/list.mjs';
import * as search from './groups/search.mjs';
import * as guard from './groups/guard.mjs';
import * as rewrite from './groups/rewrite.mjs';
import * as live from './groups/live.mjs';

const GROUPS = { write, views, grep, list, search, guard, rewrite, live };
const MEETING_MS = 60_000;
const PAUSE_MS = 50;
/** Tools after which other hosts have something to see. */
const WRITES = new Set(['write_file', 'edit_file', 'move_file', 'create_directory']);
/** Names beside artifacts: views, and files that get another name. */
const NO_ARTIFACT = /^\.|\.(summary|tail|grep|tmp)$/;

class Host {
  constructor(program, dir) {
    this.program = program;
    this.mnt = join(dir, 'mnt');
    this.store = join(dir, 'store');
  }

  mount() {
    mkdirSync(this.mnt, { recursive: true });
    this.run('mount', this.mnt, '--store', this.store);
  }

  mountAgain() {
    this.run('umount', this.mnt);
    this.mount();
  }

  run(...args) {
    const done = spawnSync(this.program, args, { encoding: 'utf8' });
    must(done.status === 0, `ctxfs ${args.join(' ')}: ${done.error ?? done.stderr}`);
  }

  /** The artifacts with their bytes, or why they cannot be listed now. A listing asks the bucket. */
  shown(conv) {
    const dir = join(this.mnt, conv, 'artifacts', 'tool');
    try {
      const names = readdirSync(dir).filter((name) => !NO_ARTIFACT.test(name)).sort();
      return names.map((name) => `${name} ${createHash('sha256').update(readFileSync(join(dir, name))).digest('hex')}`).join('\n');
    } catch (error) {
      return `${error.message} ${this.mnt}`;
    }
  }
}

class Hosts {
  constructor(hosts, conv, seed) {
    this.all = hosts;
    this.conv = conv;
    this.state = seed >>> 0;
    /** True while an artifact is live: others than its writer see it when it is sealed. */
    this.onlyFirst = false;
  }

  draw() {
    if (this.onlyFirst) return 0;
    this.state = (Math.imul(this.state, 1664525) + 1013904223) >>> 0;
    return Math.floor((this.state / 2 ** 32) * this.all.length);
  }

  /** Waits until all hosts show the same artifacts. */
  async meet() {
    if (this.onlyFirst) return;
    const end = Date.now() + MEETING_MS;
    for (;;) {
      const shown = this.all.map((host) => host.shown(this.conv));
      if (shown.every((each) => each === shown[0])) return;
      must(Date.now() < end, `the hosts have not met:\n${shown.join('\n--\n')}`);
      await sleep(PAUSE_MS);
    }
  }
}

/** The same server on each host, which answers as if it were on the first one. */
class SpreadServer extends McpServer {
  static async start(hosts, packageName, argsOf) {
    const server = new SpreadServer();
    server.hosts = hosts;
    server.each = await Promise.all(hosts.all.map((host) => McpServer.start(packageName, argsOf(host))));
    server.name = server.each[0].name;
    server.tools = server.each[0].tools;
    return server;
  }

  async call(tool, args) {
    await this.hosts.meet();
    const at = this.hosts.draw();
    const [first, here] = [this.hosts.all[0].mnt, this.hosts.all[at].mnt];
    const told = JSON.parse(JSON.stringify(args).replaceAll(first, here));
    const { error, text } = await this.each[at].call(tool, told);
    if (WRITES.has(tool)) await this.hosts.meet();
    return { error, text: text.replaceAll(here, first) };
  }

  async stop() {
    await Promise.allSettled(this.each.map((server) => server.stop()));
  }
}

async function main() {
  const [program, dirs, ...rest] = process.argv.slice(2);
  const all = dirs.split(',').map((dir) => new Host(program, dir));
  const options = readArgs(['--mount', all[0].mnt, ...rest]);
  const seed = Number(process.env.CTXFS_SEED ?? 1);
  const hosts = new Hosts(all, options.conv, seed);
  for (const host of all) {
    host.mount();
    mkdirSync(join(host.mnt, options.conv, 'artifacts', 'tool'), { recursive: true });
  }
  const report = new Report(options);
  const oracle = new Oracle();
  const space = new Workspace(options);
  const files = await SpreadServer.start(hosts, '@modelcontextprotocol/server-filesystem', (host) => [host.mnt]);
  const ripgrep = await SpreadServer.start(hosts, 'mcp-ripgrep', () => []);
  console.log(`# ${files.name}, ${ripgrep.name}, ${all.length} hosts, conversation ${options.conv}, CTXFS_SEED=${seed}`);
  try {
    const context = { options, report, oracle, space, files, ripgrep, artifact: await space.seed(files, oracle) };
    for (const [name, group] of Object.entries(GROUPS)) {
      if (options.only && !options.only.has(name)) continue;
      all[hosts.draw()].mountAgain();
      await hosts.meet();
      report.startGroup(name);
      hosts.onlyFirst = name === 'live';
      await group.run(context);
    }
  } finally {
    if (!options.keep) space.cleanUp();
    await Promise.allSettled([files.stop(), ripgrep.stop()]);
    oracle.close();
  }
  return report.close();
}

try {
  process.exit(await main());
} catch (error) {
  console.error(`accept: ${error.message}`);
  process.exit(2);
}
