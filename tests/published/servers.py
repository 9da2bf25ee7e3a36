"""The servers, and what their clients ask them."""

import http.server
import pathlib
import subprocess
import threading
import zipfile
from dataclasses import dataclass, field

# The name of no tool and of no prompt.
UNKNOWN = "nothing-like-this"
LINES = "".join(f'line {number}: caf\u00e9 \U0001f600 "quoted"\n' for number in range(4000))

OFFICE = "http://schemas.openxmlformats.org"
MAIN = f'xmlns="{OFFICE}/spreadsheetml/2006/main" xmlns:r="{OFFICE}/officeDocument/2006/relationships"'
KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
LINKS = f'<Relationships xmlns="{OFFICE}/package/2006/relationships"><Relationship Id="r1" Type="{OFFICE}/officeDocument/2006/relationships/%s" Target="%s"/></Relationships>'
ROWS = "".join(f'<row><c t="inlineStr"><is><t>caf\u00e9 {row}</t></is></c><c><v>{row}</v></c></row>' for row in range(900))
# The parts of a workbook with one sheet.
WORKBOOK = {
    "[Content_Types].xml": f'<Types xmlns="{OFFICE}/package/2006/content-types">'
                           '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
                           f'<Override PartName="/book.xml" ContentType="{KIND}.sheet.main+xml"/>'
                           f'<Override PartName="/sheet.xml" ContentType="{KIND}.worksheet+xml"/></Types>',
    "_rels/.rels": LINKS % ("officeDocument", "book.xml"),
    "_rels/book.xml.rels": LINKS % ("worksheet", "sheet.xml"),
    "book.xml": f'<workbook {MAIN}><sheets><sheet name="S" sheetId="1" r:id="r1"/></sheets></workbook>',
    "sheet.xml": f"<worksheet {MAIN}><sheetData>{ROWS}</sheetData></worksheet>",
}


@dataclass
class Server:
    """A server: its command, and the calls of a conversation with it."""

    name: str
    argv: list
    calls: list
    prompts: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    # The tools that are waited for.
    least: int = 0


def all_servers(packages, scratch, page):
    """Returns the servers. `page` is the URL of a long text."""
    files, repository = with_files(scratch), with_repository(scratch)
    script = lambda name, *words: ["node", packages.server(name), *words]
    program = lambda name, *words: [packages.program(f"mcp-server-{name}"), *words]
    other = lambda path, *words: ["node", packages.node(path), *words]
    return [
        Server("everything", script("everything"), everything_calls(), everything_prompts()),
        Server("filesystem", script("filesystem", files), filesystem_calls(files)),
        Server("memory", script("memory"), memory_calls(), env={"MEMORY_FILE_PATH": "SCRATCH/memory.jsonl"}),
        Server("sequential-thinking", script("sequential-thinking"), thinking_calls()),
        Server("time", program("time", "--local-timezone", "Europe/Oslo"), time_calls()),
        Server("git", program("git", "--repository", repository), git_calls(repository)),
        Server("fetch", program("fetch", "--allow-private-ips", "--ignore-robots-txt"), fetch_calls(page),
               [["fetch", {"url": page}], [UNKNOWN, {}]]),
        Server("excel", [packages.program("excel-mcp-server"), "stdio", "--allow-dir", files], excel_calls()),
        # These two begin with a line on standard output that is no message.
        Server("agent-files", other("@agent-infra/mcp-server-filesystem/dist/index.cjs", "--allowed-directories", files), agent_files_calls(files)),
        Server("agent-commands", other("@agent-infra/mcp-server-commands/dist/index.cjs"), command_calls()),
        Server("eslint", other("@eslint/mcp/src/mcp-cli.js"), [["lint-files", {"filePaths": [str(files / "small.txt")]}], ["lint-files", {}]]),
        # Their calls need the network.
        Server("context7", other(".bin/context7-mcp"), [[UNKNOWN, {}]]),
        Server("notion", other(".bin/notion-mcp-server"), [[UNKNOWN, {}]], env={"OPENAPI_MCP_HEADERS": "{}"}),
        Server("chart", other(".bin/mcp-server-chart"), []),
    ]


def everything_calls():
    return [
        ["echo", {"message": "caf\u00e9 \U0001f600"}],
        ["get-sum", {"a": 2, "b": 3.5}],
        ["get-sum", {"a": "x"}],
        ["get-tiny-image", {}],
        ["get-annotated-message", {"messageType": "error", "includeImage": True}],
        ["get-structured-content", {"location": "Chicago"}],
        ["get-resource-links", {"count": 3}],
        ["get-resource-reference", {"resourceType": "Text", "resourceId": 1}],
        ["get-roots-list", {}],
        ["trigger-sampling-request", {"prompt": "hi", "maxTokens": 10}],
        ["trigger-elicitation-request", {}],
        ["trigger-long-running-operation", {"duration": 1, "steps": 4}],
        [UNKNOWN, {}],
    ]


def everything_prompts():
    return [["simple-prompt", {}], ["args-prompt", {"city": "Oslo", "state": "x"}], [UNKNOWN, {}]]


def filesystem_calls(files):
    read = lambda path: ["read_text_file", {"path": str(path)}]
    return [
        ["list_allowed_directories", {}],
        read(files / "small.txt"),
        read(files / "long.txt"),
        read(files / "big.txt"),
        read("/etc/passwd"),
        ["list_directory", {"path": str(files)}],
        ["search_files", {"path": str(files), "pattern": "*.txt"}],
    ]


def agent_files_calls(files):
    path = lambda name: {"path": str(files / name)}
    return [
        ["list_allowed_directories", {}],
        ["read_file", path("small.txt")],
        ["read_file", path("big.txt")],
        ["read_file", {"path": "/etc/passwd"}],
        ["read_multiple_files", {"paths": [str(files / "small.txt"), str(files / "none.txt")]}],
        ["search_files", {**path(""), "pattern": "long"}],
        [UNKNOWN, {}],
    ]


def command_calls():
    run = lambda command: ["run_command", {"command": command}]
    return [run("echo caf\u00e9"), run("seq 5000"), run("seq 5000; seq 9 >&2"), run("exit 3"), [UNKNOWN, {}]]


def memory_calls():
    return [
        ["create_entities", {"entities": [{"name": "a", "entityType": "t", "observations": ["o"]}]}],
        ["search_nodes", {"query": "a"}],
        ["delete_entities", {"entityNames": ["a"]}],
    ]


def thinking_calls():
    thought = {"thought": "x", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
    return [["sequentialthinking", thought]]


def time_calls():
    zones = {"source_timezone": "Europe/Oslo", "target_timezone": "Asia/Tokyo"}
    return [
        ["convert_time", {**zones, "time": "12:30"}],
        ["convert_time", {**zones, "time": "late"}],
        ["get_current_time", {"timezone": "Nowhere/Else"}],
        [UNKNOWN, {}],
    ]


def git_calls(repository):
    path = {"repo_path": str(repository)}
    return [
        ["git_status", path],
        ["git_log", {**path, "max_count": 2}],
        ["git_show", {**path, "revision": "HEAD"}],
        ["git_diff_unstaged", path],
        ["git_show", {**path, "revision": "no-such"}],
    ]


def excel_calls():
    sheet = {"path": "book.xlsx", "sheet": "S"}
    return [
        ["describe_workbook", {"path": "book.xlsx"}],
        ["read_range", sheet],
        ["read_range", {**sheet, "range": "A1:B2"}],
        ["describe_workbook", {"path": "none.xlsx"}],
        [UNKNOWN, {}],
    ]


def fetch_calls(page):
    return [
        ["fetch", {"url": page, "raw": True, "max_length": 300}],
        ["fetch", {"url": page, "raw": True, "max_length": 60_000}],
        ["fetch", {"url": page + "/missing"}],
        ["fetch", {"url": "no url"}],
    ]


def with_files(scratch):
    files = scratch / "files"
    files.mkdir()
    (files / "small.txt").write_text("small\n")
    (files / "long.txt").write_text(LINES)
    (files / "big.txt").write_text(LINES * 20)
    with zipfile.ZipFile(files / "book.xlsx", "w") as book:
        for name, text in WORKBOOK.items():
            book.writestr(name, text)
    return files


def with_repository(scratch):
    repository = scratch / "repository"
    repository.mkdir()
    git = lambda *words: subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *words], cwd=repository, check=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(scratch), "GIT_AUTHOR_DATE": "2026-01-13T12:00:00Z",
             "GIT_COMMITTER_DATE": "2026-01-13T12:00:00Z"},
    )
    git("init", "--quiet", "--initial-branch=main")
    for number in range(2):
        (repository / "text.txt").write_text(LINES[: 20_000 * (number + 1)])
        git("add", ".")
        git("commit", "--quiet", "-m", f"change {number}")
    (repository / "text.txt").write_text(LINES[:30_000])
    return repository


class Page:
    """A web server with one long text."""

    def __init__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/text"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Answer(http.server.BaseHTTPRequestHandler):
    """Answers for the one path that there is."""

    def do_GET(self):  # The name that the library calls.
        body = LINES.encode()
        if self.path != "/text":
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
