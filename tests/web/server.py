"""`ctxfs web` on a store: its address, its cookie, its memory, and its end."""

import http.client
import http.cookies
import pathlib
import queue
import signal
import subprocess
import threading
import time
import urllib.parse

from hosts.report import Failed

# Seconds for the start and the end.
PATIENCE = 30
# Seconds for a look at 10,000 conversations, by a program that checks its arithmetic, on a busy machine.
LOOK = 120


class Server:
    """A server, which ends with `stop`."""

    def __init__(self, store, *options):
        self.log = store.place / f"web-{id(self)}.log"
        argv = [store.program, "web", "--store", store.path, *options]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [str(word) for word in argv], env=store.environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        self.link = self.first_line()
        parts = urllib.parse.urlsplit(self.link)
        self.host, self.port = parts.hostname, parts.port
        self.base = f"http://{parts.netloc}"
        self.token = dict(urllib.parse.parse_qsl(parts.query)).get("token")
        self.cookies = None

    def first_line(self):
        lines = queue.SimpleQueue()
        threading.Thread(target=lambda: lines.put(self.process.stdout.readline()), daemon=True).start()
        try:
            line = lines.get(timeout=PATIENCE).strip()
        except queue.Empty:
            line = ""
        if not line.startswith("http://"):
            self.kill()
            raise Failed(f"`ctxfs web` prints no address: {line} {self.log.read_text()[-600:]}")
        return line

    def cookie(self):
        """Returns the cookie that the link gives."""
        if self.cookies is None:
            answer = self.get(f"/?token={self.token}")
            found = http.cookies.SimpleCookie(answer.headers.get("set-cookie", ""))
            if len(found) != 1:
                raise Failed(f"the link gives no cookie: {answer.status} {dict(answer.headers)}")
            self.cookies = [{"name": one.key, "value": one.value} for one in found.values()]
        return self.cookies[0]

    def get(self, path, method="GET", host=None, **headers):
        """Asks by itself, without a browser. Returns the answer: its `body`, and the `seconds` until its head came."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        try:
            began = time.perf_counter()
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            connection.putheader("Host", host or f"{self.host}:{self.port}")
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            answer = connection.getresponse()
            answer.seconds = time.perf_counter() - began
            answer.body = answer.read()
            return answer
        finally:
            connection.close()

    def get_in(self, path, **more):
        """Asks as one who has the cookie."""
        cookie = self.cookie()
        return self.get(path, Cookie=f"{cookie['name']}={cookie['value']}", **more)

    def wait_for(self, path, text):
        """Waits until a page has a text: the first look at all conversations goes on while pages show those that are known."""
        until = time.monotonic() + LOOK
        while text.encode() not in self.get_in(path).body:
            if time.monotonic() > until:
                raise Failed(f"{path} does not have {text} within {LOOK} s")
            time.sleep(0.1)

    def resident(self):
        """Returns the bytes of memory that the server has for itself, without those of files."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon:"))

    def stop(self):
        """Ends it as Ctrl-C does. It must end well, and have said nothing of a panic."""
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failed(f"`ctxfs web` does not end within {PATIENCE} s") from None
        finally:
            self.kill()
        log = self.log.read_text()
        if code != 0 or "panicked" in log:
            raise Failed(f"`ctxfs web` ends with status {code}: {log[-600:]}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
