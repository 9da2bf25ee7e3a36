//! Servers that need a login, and the authorization server that gives tokens for them.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command as Process, Output};
use std::time::Instant;

use super::*;

const FILE: &str = "ctxfs/mcp-tokens.json";
const SECRET: &str = "s3 cret/+";

/// A server with its authorization server, and the state directory of a user.
struct Guarded {
    store: Arc<TestStore>,
    state: PathBuf,
    child: Child,
    base: String,
}

impl Guarded {
    fn new(flaws: &str) -> Self {
        let store = Arc::new(TestStore::new());
        let state = store.scratch("state");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/oauth_server.py");
        let mut process = Process::new("python3");
        process.arg(script).env("SERVER_FLAWS", flaws).stdout(Stdio::piped());
        let mut child = process.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let base = format!("http://127.0.0.1:{}", port.trim());
        Self { store, state, child, base }
    }

    fn url(&self) -> String {
        format!("{}/mcp", self.base)
    }

    fn gateway(&self) -> Gateway {
        self.gateway_of(&[], &[&self.url()])
    }

    fn gateway_of(&self, options: &[&str], command: &[&str]) -> Gateway {
        let environment = [("XDG_STATE_HOME", self.state.to_str().unwrap()), ("SECRET", SECRET)];
        let mut gateway = Gateway::start(&self.store, options, command, &environment);
        gateway.shake_hands("2025-11-25");
        gateway
    }

    /// Begins a login. Returns its process, and the address that it prints.
    fn begin(&self, words: &[&str]) -> (Child, String) {
        let command = self.store.ctxfs("mcp", &[&["login"], words].concat()).env("SECRET", SECRET);
        let command = command.env("XDG_STATE_HOME", self.state.to_str().unwrap());
        let mut child = command
            .with(|inner| {
                inner.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            })
            .spawn();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        (child, address.trim().to_owned())
    }

    /// Logs in as a browser does. Returns the exit code, and what is told.
    fn log_in(&self) -> (i32, String) {
        self.log_in_with(&[&self.url()])
    }

    fn log_in_with(&self, words: &[&str]) -> (i32, String) {
        let (child, address) = self.begin(words);
        if !address.is_empty() {
            assert_eq!(agree(&address), 200);
        }
        let output = child.wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    fn log_out(&self) -> Output {
        let command = self.store.ctxfs("mcp", &["logout", &self.url()]);
        let command = command.env("XDG_STATE_HOME", self.state.to_str().unwrap());
        let command = command.with(|inner| _ = inner.stderr(Stdio::piped()));
        command.spawn().wait_with_output().unwrap()
    }

    /// Asks the authorization server about itself.
    fn ask(&self, path: &str) -> Value {
        let answer = get(&format!("{}{path}", self.base)).1;
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    fn tokens(&self) -> String {
        fs::read_to_string(self.state.join(FILE)).unwrap_or_default()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Agrees at an authorization server, and comes back with the code. Returns the status there.
fn agree(address: &str) -> u16 {
    let location = get(address).1;
    get(location.split("Location: ").nth(1).unwrap().lines().next().unwrap()).0
}

/// Returns the status and the whole text of an answer.
fn get(url: &str) -> (u16, String) {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
}

#[test]
fn a_login_is_used_renewed_and_forgotten() {
    for flaws in ["", "header", "basic"] {
        let guarded = Guarded::new(flaws);
        let command = format!("run `ctxfs mcp login {}`", guarded.url());
        let refused = guarded.gateway().call("echo", &json!({}));
        assert!(text(&refused, 0).contains(&command), "{refused}");
        let (code, told) = guarded.log_in();
        assert_eq!(code, 0, "{told}");
        let mode = fs::metadata(guarded.state.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut gateways = [guarded.gateway(), guarded.gateway()];
        for gateway in &mut gateways {
            assert_eq!(text(&gateway.call("echo", &json!({})), 0), "done echo");
        }
        let before = guarded.tokens();
        get(&format!("{}/expire", guarded.base));
        for gateway in &mut gateways {
            assert_eq!(text(&gateway.call("echo", &json!({})), 0), "done echo");
        }
        assert_ne!(guarded.tokens(), before, "the token was renewed");
        let refused = gateways[0].call("admin", &json!({}));
        assert_eq!(refused["isError"], true);
        assert!(text(&refused, 0).contains("scope `write`"), "{refused}");
        let (code, told) = guarded.log_in();
        assert_eq!(code, 0, "{told}");
        let (_, seen) = get(&format!("{}/seen", guarded.base));
        assert!(seen.contains(r#""scope": "read write""#), "{seen}");
        assert_eq!(text(&gateways[1].call("admin", &json!({})), 0), "done admin");
        assert!(guarded.log_out().status.success());
        let refused = gateways[0].call("echo", &json!({}));
        assert!(text(&refused, 0).contains(&command), "{refused}");
    }
}

#[test]
fn a_client_that_is_known_beforehand_is_used_with_its_secret() {
    for flaws in ["closed", "closed post"] {
        let guarded = Guarded::new(flaws);
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let client =
            json!({"clientId": "known", "clientSecret": "${SECRET}", "callbackPort": port});
        let servers = json!({"mcpServers": {"s": {"url": guarded.url(), "oauth": client}}});
        let file = guarded.store.scratch("client").join("mcp.json");
        fs::write(&file, servers.to_string()).unwrap();
        let file = file.to_str().unwrap();
        let (code, told) = guarded.log_in_with(&["--servers", file, "s"]);
        assert!(code == 0 && !told.contains("s3 cret"), "{told}");
        let back = format!("http://127.0.0.1:{port}/callback");
        assert_eq!(guarded.ask("/seen")[0]["redirect_uri"], back);
        let mut gateway = guarded.gateway_of(&["--servers", file], &[]);
        assert_eq!(text(&gateway.call("s__echo", &json!({})), 0), "done echo");
        guarded.ask("/expire");
        assert_eq!(text(&gateway.call("s__echo", &json!({})), 0), "done echo");

        let file = guarded.store.scratch("client").join("secret");
        let words = ["--client-id", "known", "--client-secret-file", file.to_str().unwrap()];
        let url = guarded.url();
        let words = [&[&*url], &words[..]].concat();
        for (secret, expected) in [("wrong\n", 1), ("s3 cret/+\n", 0)] {
            fs::write(&file, secret).unwrap();
            let (code, told) = guarded.log_in_with(&words);
            assert_eq!(code, expected, "{told}");
        }
    }
    let guarded = Guarded::new("closed");
    let (code, told) = guarded.log_in();
    assert!(code == 1 && told.contains("registers no clients"), "{told}");
}

#[test]
fn the_address_of_a_document_is_the_id_of_a_client_where_it_may_be() {
    let document = "https://client.example/ctxfs.json";
    for (flaws, is_document) in [("closed document", true), ("document", true), ("", false)] {
        let guarded = Guarded::new(flaws);
        let (code, told) =
            guarded.log_in_with(&[&guarded.url(), "--client-metadata-url", document]);
        assert_eq!(code, 0, "{told}");
        assert_eq!(guarded.ask("/seen")[0]["client_id"] == document, is_document);
        assert_eq!(text(&guarded.gateway().call("echo", &json!({})), 0), "done echo");
    }
}

#[test]
fn a_logout_revokes_the_tokens_and_removes_them_all_the_same_if_that_fails() {
    let guarded = Guarded::new("");
    assert_eq!(guarded.log_in().0, 0);
    assert_eq!(guarded.ask("/valid"), json!([1, 1]));
    let output = guarded.log_out();
    assert!(output.status.success(), "{output:?}");
    assert_eq!((guarded.ask("/valid"), &*guarded.tokens()), (json!([0, 0]), "{}"));
    let told = String::from_utf8(guarded.log_out().stderr).unwrap();
    assert!(told.contains("there were no tokens"), "{told}");

    let guarded = Guarded::new("stubborn");
    assert_eq!(guarded.log_in().0, 0);
    let output = guarded.log_out();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &*guarded.tokens()), (Some(1), "{}"));
    assert!(told.contains("not revoked") && told.contains("unsupported_token_type"), "{told}");
}

#[test]
fn a_token_is_renewed_before_it_expires() {
    let guarded = Guarded::new("lifetime=2");
    assert_eq!(guarded.log_in().0, 0);
    let mut gateway = guarded.gateway();
    thread::sleep(Duration::from_millis(1100));
    assert_eq!(text(&gateway.call("echo", &json!({})), 0), "done echo");
    assert_ne!(guarded.ask("/renewals"), 0);
}

#[test]
fn a_token_of_any_lifetime_is_used() {
    for lifetime in ["20", "0", "-5", "1e300", "\"3600\"", "18446744073709551615", "null", "{}"] {
        let guarded = Guarded::new(&format!("lifetime={lifetime}"));
        assert_eq!(guarded.log_in().0, 0, "{lifetime}");
        assert_eq!(text(&guarded.gateway().call("echo", &json!({})), 0), "done echo");
        assert_eq!(guarded.ask("/renewals"), 0, "{lifetime}");
    }
}

#[test]
fn a_renewal_outlives_the_request_that_began_it() {
    let guarded = Guarded::new("slow");
    assert_eq!(guarded.log_in().0, 0);
    let mut gateway = guarded.gateway();
    guarded.ask("/expire");
    let id = gateway.ask("tools/call", &json!({"name": "echo", "arguments": {}}));
    while guarded.ask("/renewals") == 0 {
        thread::sleep(Duration::from_millis(10));
    }
    let cancelled = json!({"requestId": id});
    let method = "notifications/cancelled";
    gateway.send(&json!({"jsonrpc": "2.0", "method": method, "params": cancelled}).to_string());
    thread::sleep(Duration::from_millis(500));
    assert_eq!(text(&gateway.call("echo", &json!({})), 0), "done echo");
    assert_eq!(guarded.ask("/renewals"), 1);
}

#[test]
fn requests_that_wait_for_a_renewal_share_its_failure() {
    let guarded = Guarded::new("slow refuse");
    assert_eq!(guarded.log_in().0, 0);
    let mut gateway = guarded.gateway();
    guarded.ask("/expire");
    let call = json!({"name": "echo", "arguments": {}});
    let ids: Vec<u64> = (0..20).map(|_| gateway.ask("tools/call", &call)).collect();
    for id in ids {
        let answer = gateway.answer(id);
        assert!(text(&answer["result"], 0).contains("invalid_grant"), "{answer}");
    }
    let renewals = guarded.ask("/renewals");
    assert!(renewals.as_u64().unwrap() < 10, "{renewals}");
}

#[test]
fn an_authorization_server_that_hangs_holds_up_no_other() {
    let (hanging, other) = (Guarded::new("hang"), Guarded::new(""));
    let servers = json!({"mcpServers": {"a": {"url": hanging.url()}, "b": {"url": other.url()}}});
    let file = hanging.store.scratch("client").join("mcp.json");
    fs::write(&file, servers.to_string()).unwrap();
    let file = file.to_str().unwrap();
    for (name, guarded) in [("a", &hanging), ("b", &other)] {
        let (child, address) = hanging.begin(&["--servers", file, name]);
        agree(&address);
        assert!(child.wait_with_output().unwrap().status.success(), "{}", guarded.base);
    }
    let mut gateway = hanging.gateway_of(&["--servers", file], &[]);
    let call = |name: &str| json!({"name": name, "arguments": {}});
    assert_eq!(text(&gateway.call("a__echo", &json!({})), 0), "done echo");
    hanging.ask("/expire");
    other.ask("/expire");
    gateway.ask("tools/call", &call("a__echo"));
    while hanging.ask("/renewals") == 0 {
        thread::sleep(Duration::from_millis(10));
    }
    let began = Instant::now();
    assert_eq!(text(&gateway.call("b__echo", &json!({})), 0), "done echo");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn a_server_that_anybody_may_initialize_is_asked_for_more() {
    for flaws in ["lazy", "lazy header"] {
        let guarded = Guarded::new(flaws);
        assert_eq!(guarded.log_in().0, 0);
        assert_eq!(guarded.ask("/seen")[0]["scope"], "read", "the scope of the challenge");
        assert_eq!(text(&guarded.gateway().call("echo", &json!({})), 0), "done echo");
    }
}

#[test]
fn an_answer_without_end_does_not_hold_up_a_login() {
    let guarded = Guarded::new("stream");
    let (code, told) = guarded.log_in();
    assert_eq!(code, 0, "{told}");
}

#[test]
fn a_login_that_is_not_what_it_seems_is_refused() {
    for (flaws, why) in [
        ("resource", "another server"),
        ("issuer", "another issuer"),
        ("pkce", "PKCE"),
        ("iss", "another issuer"),
        ("denied", "access_denied"),
        ("newline", "no bearer token"),
    ] {
        let guarded = Guarded::new(flaws);
        let (code, told) = guarded.log_in();
        assert!(code == 1 && told.contains(why), "{flaws}: {code} {told}");
        assert_eq!(guarded.tokens(), "");
    }
}

#[test]
fn what_others_send_to_a_login_changes_nothing() {
    let guarded = Guarded::new("");
    let (child, address) = guarded.begin(&[&guarded.url()]);
    let query = address.split_once("redirect_uri=").unwrap().1;
    let back = query.split('&').next().unwrap().replace("%3A", ":").replace("%2F", "/");
    assert_eq!(get(&format!("{back}?code=x&state=guessed")).0, 400);
    assert_eq!(get(&format!("{back}/more?code=x")).0, 404);
    let silent = TcpStream::connect(back.split('/').nth(2).unwrap()).unwrap();
    assert_eq!(agree(&address), 200);
    drop(silent);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
