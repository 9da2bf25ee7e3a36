"""An MCP server over HTTP that needs tokens, and the authorization server that gives them. Prints its port.

Options are in the environment: SERVER_FLAWS has words that name what is left out or wrong.
"""
import base64
import hashlib
import json
import os
import secrets
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

FLAWS = os.environ.get("SERVER_FLAWS", "").split()
# The time that a token is valid, as JSON.
LIFETIME = next((word.removeprefix("lifetime=") for word in FLAWS if word.startswith("lifetime=")), "3600")
CODES, TOKENS, REFRESH, SEEN, RENEWALS = {}, {}, {}, [], []
DOCUMENT = "https://client.example/ctxfs.json"
# The clients by their ids. Those that are not registered may come back to any address.
CLIENTS = {"known": {"token_endpoint_auth_method": "client_secret_post" if "post" in FLAWS else "client_secret_basic"},
           DOCUMENT: {"token_endpoint_auth_method": "none"}}
SECRET = "s3 cret/+"


class Refused(Exception):
    """The error of an answer of the authorization server."""


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, body=b"", **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_GET(self):
        address = urlsplit(self.path)
        if address.path == "/.well-known/oauth-protected-resource/mcp":
            resource = BASE + "/other" if "resource" in FLAWS else BASE + "/mcp"
            return self.send(200, {"resource": resource, "authorization_servers": [BASE], "scopes_supported": ["all"]})
        if address.path == "/.well-known/oauth-authorization-server":
            return self.send(200, metadata())
        if address.path == "/seen":
            return self.send(200, SEEN)
        if address.path == "/valid":
            return self.send(200, [len(TOKENS), len(REFRESH)])
        if address.path == "/renewals":
            return self.send(200, len(RENEWALS))
        if address.path == "/expire":
            TOKENS.clear()
            return self.send(200, {})
        if address.path == "/authorize":
            given = {name: values[0] for name, values in parse_qs(address.query).items()}
            SEEN.append(given)
            client = CLIENTS[given["client_id"]]
            assert given["redirect_uri"] in client.get("redirect_uris", [given["redirect_uri"]])
            assert given["resource"] == BASE + "/mcp"
            assert given["response_type"] == "code" and given["code_challenge_method"] == "S256"
            back = {"state": given["state"], "iss": "https://evil.example" if "iss" in FLAWS else BASE}
            if "denied" in FLAWS:
                back["error"] = "access_denied"
            else:
                back["code"] = secrets.token_urlsafe()
                CODES[back["code"]] = given
            return self.send(302, Location=given["redirect_uri"] + "?" + urlencode(back, quote_via=quote))
        self.send(404)

    def do_POST(self):
        if self.path == "/mcp":
            return self.mcp(json.loads(self.body()))
        if self.path == "/register":
            client = {**json.loads(self.body()), "client_id": secrets.token_urlsafe(), "client_secret": SECRET}
            if "basic" in FLAWS:
                client["token_endpoint_auth_method"] = "client_secret_basic"
            CLIENTS[client["client_id"]] = client
            return self.send(201, client)
        if self.path in ("/token", "/revoke"):
            try:
                given = {k: v[0] for k, v in parse_qs(self.body().decode()).items()}
                answer = self.token if self.path == "/token" else self.revoke
                return self.send(200, answer(given, self.client(given)))
            except Refused as error:
                return self.send(400, {"error": str(error)})
        self.send(404)

    def client(self, given):
        id, how, secret = given.get("client_id"), "none", None
        if basic := self.headers.get("Authorization"):
            id, secret = (unquote(part) for part in base64.b64decode(basic.removeprefix("Basic ")).decode().split(":"))
            how = "client_secret_basic"
        elif "client_secret" in given:
            how, secret = "client_secret_post", given["client_secret"]
        if how != CLIENTS[id]["token_endpoint_auth_method"] or secret not in (None, SECRET):
            raise Refused("invalid_client")
        return id

    def revoke(self, given, id):
        if "stubborn" in FLAWS:
            raise Refused("unsupported_token_type")
        kept = REFRESH if given["token_type_hint"] == "refresh_token" else TOKENS
        revoked = kept.pop(given["token"], None)
        assert revoked is None or revoked["client_id"] == id
        return {}

    def token(self, given, id):
        if given.get("resource") != BASE + "/mcp":
            raise Refused("invalid_target")
        if given["grant_type"] == "refresh_token":
            # Each is taken once.
            grant = REFRESH.pop(given["refresh_token"], None)
            RENEWALS.append(grant)
            time.sleep(600 if "hang" in FLAWS else 1 if "slow" in FLAWS else 0)
            if "refuse" in FLAWS:
                raise Refused("invalid_grant")
        else:
            grant = CODES.pop(given["code"], None)
            digest = hashlib.sha256(given["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            if grant and (grant["code_challenge"] != challenge or grant["redirect_uri"] != given["redirect_uri"]):
                raise Refused("invalid_grant")
        if grant is None or grant["client_id"] != id:
            raise Refused("invalid_grant")
        access, refresh = secrets.token_urlsafe(), secrets.token_urlsafe()
        TOKENS[access] = REFRESH[refresh] = grant
        access += "\nx: y" if "newline" in FLAWS else ""
        return {"access_token": access, "token_type": "Bearer", "expires_in": json.loads(LIFETIME),
                "refresh_token": refresh, "scope": grant.get("scope", "")}

    def mcp(self, message):
        grant = TOKENS.get(self.headers.get("Authorization", "").removeprefix("Bearer "))
        if grant is None and "stream" in FLAWS and message.get("method") == "initialize":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.end_headers()
            return time.sleep(600)
        is_open = "lazy" in FLAWS and message.get("method") in ("initialize", "notifications/initialized")
        if grant is None and not is_open:
            named = f'resource_metadata="{BASE}/.well-known/oauth-protected-resource/mcp", '
            named = "" if "header" in FLAWS else named
            return self.send(401, WWW_Authenticate=f'Bearer {named}scope="read"')
        method, params = message.get("method"), message.get("params", {})
        if params.get("name") == "admin" and "write" not in grant.get("scope", "").split():
            return self.send(403, WWW_Authenticate='Bearer error="insufficient_scope", scope="write"')
        if "id" not in message:
            return self.send(202)
        result = {"content": [{"type": "text", "text": "done " + str(params.get("name"))}]}
        if method == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
        elif method == "tools/list":
            result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "admin")]}
        self.send(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})


def metadata():
    found = {
        "issuer": BASE,
        "authorization_endpoint": BASE + "/authorize",
        "token_endpoint": BASE + "/token",
        "registration_endpoint": BASE + "/register",
        "revocation_endpoint": BASE + "/revoke",
        "client_id_metadata_document_supported": "document" in FLAWS,
        "token_endpoint_auth_methods_supported": ["client_secret_post"] if "post" in FLAWS else ["none", "client_secret_basic"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
    }
    if "issuer" in FLAWS:
        found["issuer"] = "https://evil.example"
    if "closed" in FLAWS:
        del found["registration_endpoint"]
    if "pkce" in FLAWS:
        del found["code_challenge_methods_supported"]
    return found


SERVER = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
BASE = f"http://127.0.0.1:{SERVER.server_port}"
print(SERVER.server_port, flush=True)
SERVER.serve_forever()
