"""The server of an attacker: a page on another origin that tries what a browser lets it."""

import contextlib
import http.server
import threading

PAGE = b"""<!doctype html><title>A prize for you</title><body><script src="/attack.js"></script>"""


@contextlib.contextmanager
def listening():
    """Serves the attack page on a port of its own. Yields the port, which all names below `.test` lead to, too."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_script = self.path.startswith("/attack.js")
        self.send_response(200)
        self.send_header("content-type", "text/javascript" if is_script else "text/html")
        self.end_headers()
        self.wfile.write(SCRIPT if is_script else PAGE)

    def log_message(self, *_):
        pass


# Each attack takes the address of a page, and returns what it learned: `null` if nothing.
SCRIPT = rb"""
const within = (promise, ms = 4000) => Promise.race([promise, new Promise(end => setTimeout(() => end(null), ms))]);
const element = (tag, set) => within(new Promise(end => {
    const one = document.createElement(tag);
    one.onload = () => end(tag + ' has loaded');
    one.onerror = () => end(null);
    set(one);
    document.body.append(one);
}));
const attacks = {
    fetched: url => fetch(url, {credentials: 'include'}).then(one => one.text()).catch(() => null),
    blind: url => fetch(url, {credentials: 'include', mode: 'no-cors'}).then(one => one.text())
        .then(text => text || null).catch(() => null),
    asked: url => within(new Promise(end => {
        const one = new XMLHttpRequest();
        one.withCredentials = true;
        one.onload = () => end(one.responseText);
        one.onerror = () => end(null);
        one.open('GET', url);
        one.send();
    })),
    image: url => element('img', one => { one.src = url; }),
    script: url => element('script', one => { one.src = url; }),
    style: url => element('link', one => { one.rel = 'stylesheet'; one.href = url; }),
    module: url => import(url).then(() => 'a module').catch(() => null),
    video: url => element('video', one => { one.src = url; one.onloadeddata = one.onload; }),
    framed: url => within(new Promise(end => {
        const one = document.createElement('iframe');
        one.src = url;
        one.onload = () => { try { end(one.contentDocument ? one.contentDocument.body.innerText || null : null); }
                             catch { end(one.contentWindow.length ? 'frames of it' : null); } };
        document.body.append(one);
    })),
    embedded: url => element('object', one => { one.data = url; one.type = 'text/html'; })
        .then(() => document.querySelector('object').contentDocument?.body?.innerText || null).catch(() => null),
    events: url => within(new Promise(end => {
        const one = new EventSource(url, {withCredentials: true});
        one.onmessage = one.onopen = () => end('a stream');
        one.onerror = () => end(null);
    })),
    socket: url => within(new Promise(end => {
        const one = new WebSocket(url.replace('http', 'ws'));
        one.onopen = () => end('a socket');
        one.onerror = () => end(null);
    })),
    worker: url => { try { new Worker(url); return 'a worker'; } catch { return null; } },
    opened: url => within(new Promise(end => {
        const one = open(url);
        setTimeout(() => { try { end(one.closed ? null : one.document.body ? one.document.body.innerText || null : null); }
                           catch { end(one.length ? 'frames of it' : null); } }, 1500);
    })),
    timed: url => fetch(url, {credentials: 'include', mode: 'no-cors'}).catch(() => null).then(() => {
        const one = performance.getEntriesByName(url).at(-1);
        return one && (one.transferSize || one.encodedBodySize || one.responseStatus) ? 'its size' : null;
    }),
};
const changes = {
    posted: url => fetch(url, {method: 'POST', mode: 'no-cors', credentials: 'include', body: 'delete=1'}).catch(() => null),
    put: url => fetch(url, {method: 'PUT', credentials: 'include', body: 'x'}).catch(() => null),
    deleted: url => fetch(url, {method: 'DELETE', credentials: 'include'}).catch(() => null),
    beacon: url => navigator.sendBeacon(url, 'x'),
    form: url => new Promise(end => {
        const frame = document.createElement('iframe');
        frame.name = 'target';
        const form = document.createElement('form');
        Object.assign(form, {action: url, method: 'POST', target: 'target'});
        document.body.append(frame, form);
        form.submit();
        setTimeout(end, 500);
    }),
    pinged: url => new Promise(end => {
        const link = document.createElement('a');
        Object.assign(link, {href: '#here', ping: url});
        document.body.append(link);
        link.click();
        setTimeout(end, 300);
    }),
};
window.attack = async (names, url) => {
    const learned = {};
    for (const name of names) {
        const found = await Promise.resolve(attacks[name](url)).catch(() => null);
        if (found !== null && found !== undefined) learned[name] = String(found).slice(0, 200);
    }
    return learned;
};
window.change = async url => { for (const one of Object.values(changes)) await one(url); };
window.names = Object.keys(attacks);
"""
