"""The same conversations by all clients, directly and through the gateway."""

import contextlib
import json
import os
import queue
import threading

from hosts.report import Failed

from published import comparison
from published.servers import Server
from published.ways import CONVERSATION, Way, client, environment, free_port, opened, running, wait_for

# Clients that are tried at a time: most of their time they wait.
AT_A_TIME = 3
# Servers with which a client talks at a time. An answer that takes more than 5 s over HTTP comes as an event, of which
# the Python client takes 1 MiB at most.
TOGETHER = 5
# The end of the names of clients that ask for the newest revision.
NEWEST = ", newest revision"
FEW = ("everything", "filesystem", "git", "excel")
# Seconds for the conversations of one client with these, or with all behind one gateway.
SECONDS = 120


class Conversations:
    """Holds conversations, and reports whether they are the same."""

    def __init__(self, program, packages, servers, scratch, report, short):
        self.program, self.packages, self.scratch, self.report = program, packages, scratch, report
        self.servers, self.short, self.is_over = servers, short, False

    def clients(self):
        """Returns the clients: their names, and the start of their command."""
        drivers = os.path.join(os.path.dirname(__file__), "drivers")
        node = lambda name, *more: (["node", f"{drivers}/{name}.mjs", self.packages.npm], more)
        python = lambda mode: ([self.packages.program("python3"), f"{drivers}/python_client.py"], [mode])
        return {
            "typescript 1": node("typescript-1"),
            "typescript 2": node("typescript-2", "legacy"),
            f"typescript 2{NEWEST}": node("typescript-2", "auto"),
            "python": python("legacy"),
            f"python{NEWEST}": python("auto"),
            f"ai sdk{NEWEST}": node("ai-sdk"),
        }

    def run(self):
        work = queue.SimpleQueue()
        # They end with this thread, whatever they do.
        threads = [threading.Thread(target=self.work_off, args=(work,), daemon=True) for _ in range(AT_A_TIME)]
        try:
            with self.over_http() as servers:
                for name, command in self.clients().items():
                    work.put((name, self.over_stdio, (name, command, self.servers_of(name))))
                    # The bridge is there for those that ask for the newest revision.
                    for server in servers if NEWEST in name else servers[:1]:
                        work.put((name, self.remote, (name, command, server)))
                name = "mcp-remote"
                work.put((name, self.by_remote, (name, self.clients()["typescript 1"], servers[0])))
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        finally:
            self.is_over = True

    def work_off(self, work):
        while not self.is_over:
            try:
                name, hold, arguments = work.get_nowait()
            except queue.Empty:
                return
            try:
                hold(*arguments)
            except Exception as error:  # Another client may still be tried.
                self.report.not_ok(name, "conversations", repr(error))

    def servers_of(self, name):
        """Returns the servers that a client talks with over stdio. To save time, they are few for the client of the
        AI SDK, and, in a short run, for clients that ask for an older revision."""
        has_few = name.startswith("ai sdk") or self.short and NEWEST not in name
        return [server for server in self.servers if not has_few or server.name in FEW]

    def over_stdio(self, name, command, servers):
        """Servers over stdio: directly, through the gateway, and through one over HTTP."""
        place = self.scratch / name.replace(" ", "-")
        direct = self.hear(command, Way("directly"), servers, place)
        for way in (Way("gateway", place / "stores"), Way("gateway over HTTP", place / "http-stores", http=True)):
            through = self.hear(command, way, servers, place)
            for server in servers:
                self.compare(name, way, server, direct, through)
        self.several(name, command, servers, direct, place / "several")

    def several(self, name, command, servers, direct, place):
        """All servers behind one gateway."""
        place.mkdir()
        store, file = place / "store", place / "servers.json"
        named = lambda server, pairs: [[f"{server.name}__{what}", arguments] for what, arguments in pairs]
        calls = [one for server in servers for one in named(server, server.calls)]
        prompts = [one for server in servers for one in named(server, server.prompts)]
        file.write_text(json.dumps({"mcpServers": {server.name: entry(server, place) for server in servers}}))
        options = ["mcp", "--store", str(store), "-c", CONVERSATION, "--servers", str(file)]
        reach = {"command": str(self.program), "args": options, "env": {"PATH": os.environ["PATH"]}}
        tools = lambda server: direct[server.name].get("tools", {}).get("result", {}).get("tools", [])
        least = sum(len(tools(server)) for server in servers) + comparison.OWN_TOOLS
        together = Server("several", [], calls, prompts, least=least)
        through = self.heard(command, {"several": reach}, [together], place)["several"]
        try:
            found = comparison.compare_several(direct, through, servers, store)
            self.report.ok(name, "all servers behind one gateway", found)
        except Failed as error:
            self.report.not_ok(name, "all servers behind one gateway", error)

    @contextlib.contextmanager
    def over_http(self):
        """A server over HTTP by itself, and one behind a bridge, which speaks each revision. Their command is their URL."""
        everything = next(server for server in self.servers if server.name == "everything")
        bridge = ["node", self.packages.node("mcp-proxy/dist/bin/mcp-proxy.mjs"), "--host", "127.0.0.1", "--server", "stream"]
        servers = []
        with contextlib.ExitStack() as stack:
            for name, start, calls in (
                ("everything over HTTP", lambda _: [*everything.argv, "streamableHttp"], everything.calls),
                ("everything behind mcp-proxy", lambda port: [*bridge, "--port", port, "--", *everything.argv], everything.calls[:8]),
            ):
                port = free_port()
                env = {"PATH": os.environ["PATH"], "PORT": str(port)}
                argv = [str(word) for word in start(port)]
                stack.enter_context(running(argv, env, self.scratch / f"{name.replace(' ', '-')}.log"))
                wait_for(port)
                servers.append(Server(name, [f"http://127.0.0.1:{port}/mcp"], calls, everything.prompts))
            yield servers

    def remote(self, name, command, server):
        """A server over HTTP: directly, and through a gateway that speaks stdio or HTTP."""
        place = self.scratch / f"{name.replace(' ', '-')}-{server.name.replace(' ', '-')}"
        direct = self.heard(command, {server.name: {"url": server.argv[0]}}, [server], place / "directly")
        for way in (Way("gateway", place / "stores"), Way("gateway over HTTP", place / "http-stores", http=True)):
            through = self.hear(command, way, [server], place)
            self.compare(name, way, server, direct, through)

    def by_remote(self, name, command, server):
        """A server over HTTP: by a client that speaks HTTP for one that does not, directly and through the gateway."""
        place = self.scratch / name
        way = Way("gateway over HTTP", place / "http-stores", http=True)
        heard = []
        with opened(way, server, self.program, place) as reach:
            for number, url in enumerate((server.argv[0], reach["url"])):
                own = place / str(number)
                argv = [self.packages.node("mcp-remote/dist/proxy.js"), url, "--transport", "http-only"]
                env = {"PATH": os.environ["PATH"], "MCP_REMOTE_CONFIG_DIR": str(own / "config")}
                start = {"command": "node", "args": [str(word) for word in argv], "env": env}
                heard.append(self.heard(command, {server.name: start}, [server], own))
        self.compare(name, way, server, *heard)

    def compare(self, name, way, server, direct, through):
        what = f"{server.name}, {way.name}"
        try:
            self.report.ok(name, what, comparison.compare(direct[server.name], through[server.name], way, server))
        except Failed as error:
            self.report.not_ok(name, what, error)

    def hear(self, command, way, servers, place):
        """Returns what a client hears by a way."""
        heard = {}
        for first in range(0, len(servers), TOGETHER):
            if self.is_over:
                raise Failed("the run is over")
            some = servers[first : first + TOGETHER]
            with contextlib.ExitStack() as stack:
                reach = {one.name: stack.enter_context(opened(way, one, self.program, place)) for one in some}
                heard |= self.heard(command, reach, some, place / way.name.replace(" ", "-"))
        return heard

    def heard(self, command, reach, servers, place):
        place.mkdir(parents=True, exist_ok=True)
        (start, more) = command
        members = [{"name": one.name, "calls": one.calls, "prompts": one.prompts, "least": one.least, **reach[one.name]}
                   for one in servers]
        job = place / "job.json"
        job.write_text(json.dumps({"roots": str(self.scratch / "files"), "servers": members}))
        try:
            ended = client([*start, job, *more], SECONDS, place)
            if ended.code == 0:
                return json.loads(ended.stdout)
            why = str(ended)
        except Failed as error:
            why = str(error)
        return {server.name: {"failed": why} for server in servers}


def entry(server, place):
    """Returns what a file of servers says of one."""
    own = place / server.name
    own.mkdir()
    argv = [str(word) for word in server.argv]
    return {"command": argv[0], "args": argv[1:], "env": environment(server, own)}
