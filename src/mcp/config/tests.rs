mod config {
    use crate::config::*;
    use proptest::prelude::*;

    fn variable(name: &str) -> Option<String> {
        match name {
            "HOME" => Some("/home/u".to_owned()),
            "GITHUB_TOKEN" => Some("ghp_hunter2".to_owned()),
            _ => None,
        }
    }

    fn parse(text: &str) -> Servers {
        Servers::parse("mcp.json", text, &variable)
    }

    fn errors(text: &str) -> Vec<String> {
        parse(text).flaws.iter().map(ToString::to_string).collect()
    }

    fn errors_of(keys: &str) -> Vec<String> {
        errors(&format!("{{\"mcpServers\": {{\"s\": {{{keys}}}}}}}"))
    }

    #[test]
    fn the_files_of_clients_are_read() {
        let parsed = parse(
            r#"{
  // As Claude Code, Cursor and Copilot write them.
  "$schema": "x", "otherSetting": {"a": [1]},
  "mcpServers": {
    "github": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-github", "${HOME}/x"],
      "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "${GITHUB_TOKEN}", "HOST": "${GH_HOST:-github.com}"},
      "cwd": "${HOME}",
      "trust": true, "timeout": 2.5, "tools": ["*", "!delete_*"], "prefix": "gh", "shared": true,
    },
    "docs": {"type": "http", "url": "https://docs.example/mcp", "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}},
    "bare": {"url": "http://127.0.0.1:3000/mcp"}, /* no type */
    "client": {"url": "https://c.example", "oauth": {"clientId": "x", "clientSecret": "${GITHUB_TOKEN}", "callbackPort": 8080}},
    "document": {"url": "https://c.example", "oauth": {"clientMetadataUrl": "https://d.example/c.json", "clientSecretFile": "${HOME}/s"}},
    "streamable": {"type": "streamable-http", "url": "https://s.example"},
    "local": {"type": "local", "command": "srv", "tools": ["*"]},
    "stdio": {"type": "stdio", "command": "srv", "args": []},
  },
}"#,
        );
        assert_eq!(parsed.flaws, []);
        let names: Vec<&str> = parsed.servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(
            names,
            ["github", "docs", "bare", "client", "document", "streamable", "local", "stdio"]
        );
        let github = &parsed.servers[0];
        assert!(github.trust && github.shared && !github.tools.offers("delete_repo"));
        assert_eq!((github.timeout, github.prefix()), (Duration::from_millis(2500), "gh"));
        let Transport::Stdio { command, args, env, cwd } = &github.transport else { panic!() };
        assert_eq!((command.as_str(), cwd.as_deref()), ("npx", Some("/home/u")));
        assert_eq!((args.len(), args[2].reveal()), (3, "/home/u/x"));
        assert_eq!(env[0].1.reveal(), "ghp_hunter2");
        assert_eq!((env[1].0.as_str(), env[1].1.reveal()), ("HOST", "github.com"));
        let Transport::Http { url, headers, .. } = &parsed.servers[1].transport else { panic!() };
        assert_eq!(
            (url.reveal(), headers[0].1.reveal()),
            ("https://docs.example/mcp", "Bearer ghp_hunter2")
        );
        let bare = &parsed.servers[2];
        assert_eq!((bare.timeout, bare.prefix(), bare.trust), (DEFAULT_TIMEOUT, "bare", false));
        let Transport::Http { client, .. } = &parsed.servers[3].transport else { panic!() };
        let secret = client.secret.as_ref().map(Secret::reveal);
        assert_eq!(
            (client.id.as_deref(), secret, client.port),
            (Some("x"), Some("ghp_hunter2"), Some(8080))
        );
        let Transport::Http { client, .. } = &parsed.servers[4].transport else { panic!() };
        assert_eq!(client.document.as_deref(), Some("https://d.example/c.json"));
        assert_eq!(client.secret_file.as_deref(), Some("/home/u/s".as_ref()));
    }

    #[test]
    fn a_wrong_server_is_named_and_the_others_are_served() {
        let text = "{\n\"mcpServers\": {\n\"a\": {\"command\": \"x\"},\n\"b\": {\n\"command\": \"y\",\n\"env\": {\"T\": \"${NONE}\"}},\n\"c\": {\"url\": \"http://h/\"}}}";
        let parsed = parse(text);
        assert_eq!(parsed.servers.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(
            errors(text),
            [
                "mcp.json:6: `mcpServers.b.env.T` needs the variable `NONE`, which is not set: set it, or \
          write `${NONE:-default}`"
            ]
        );
    }

    #[test]
    fn every_slip_has_its_message() {
        let table = [
            (r#""command": 3"#, "mcpServers.s.command` must be a text"),
            (r#""command": "x", "args": "y""#, "mcpServers.s.args` must be a list of texts"),
            (r#""command": "x", "args": [1]"#, "mcpServers.s.args` must be a text"),
            (r#""command": "x", "env": {"A=B": "1"}"#, "mcpServers.s.env.A=B` is no name for it"),
            (r#""command": "x", "env": ["A"]"#, "mcpServers.s.env` must be an object of texts"),
            (r#""command": "x", "trust": "yes""#, "mcpServers.s.trust` must be true or false"),
            (r#""command": "x", "timeout": 0"#, "mcpServers.s.timeout` must be seconds"),
            (r#""command": "x", "timeout": -1"#, "mcpServers.s.timeout` must be seconds"),
            (r#""command": "x", "timeout": 1e99"#, "mcpServers.s.timeout` must be seconds"),
            (r#""command": "x", "timeout": "9""#, "mcpServers.s.timeout` must be a number"),
            (
                r#""command": "x", "tools": ["["]"#,
                "mcpServers.s.tools` has a pattern that is no glob",
            ),
            (r#""command": "x\u0000""#, "mcpServers.s.command` holds a NUL"),
            (r#""command": """#, "mcpServers.s` has an empty `command`"),
            (r#""command": "x", "url": "http://h""#, "mcpServers.s` has both"),
            (
                r#""type": "http", "command": "x""#,
                "mcpServers.s` has `command`, which `type` denies",
            ),
            (
                r#""type": "stdio", "url": "http://h""#,
                "mcpServers.s` has `url`, which `type` denies",
            ),
            (r#""type": "sse", "url": "http://h""#, "mcpServers.s.type` cannot be `sse`"),
            (r#""type": "ws", "url": "http://h""#, "mcpServers.s.type` must be `stdio`"),
            (r#""url": "ftp://h""#, "mcpServers.s.url` must begin with"),
            (r#""url": "http://""#, "mcpServers.s.url` must begin with"),
            (
                r#""url": "http://h", "headers": {"A B": "x"}"#,
                "mcpServers.s.headers.A B` is no name",
            ),
            (
                r#""url": "http://h", "headers": {"A": "x\ny"}"#,
                "mcpServers.s.headers.A` holds the end",
            ),
            (r#""url": "http://h", "oauth": false"#, "mcpServers.s.oauth` must be an object"),
            (
                r#""url": "http://h", "oauth": {"callbackPort": 70000}"#,
                "mcpServers.s.oauth.callbackPort` must be a port",
            ),
            ("", "mcpServers.s` needs `command` or `url`"),
            (r#""args": []"#, "mcpServers.s` needs `command` or `url`"),
        ];
        for (keys, expected) in table {
            let found = errors_of(keys);
            assert_eq!(found.len(), 1, "{keys}: {found:?}");
            assert!(found[0].starts_with(&format!("mcp.json:1: `{expected}")), "{keys}: {found:?}");
            assert!(
                parse(&format!("{{\"mcpServers\": {{\"s\": {{{keys}}}}}}}")).servers.is_empty()
            );
        }
    }

    #[test]
    fn a_file_that_is_wrong_as_a_whole_has_one_error() {
        let table = [
            ("", "`mcpServers` is missing"),
            ("[]", "`mcpServers` is missing"),
            (r#"{"servers": {}}"#, "`mcpServers` is missing"),
            (r#"{"mcpServers": []}"#, "`mcpServers` must be an object"),
            ("{\n\"mcpServers\": {", "is not JSON: "),
            ("{'mcpServers': {}}", "is not JSON: "),
        ];
        for (text, expected) in table {
            let found = errors(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains(expected), "{text}: {found:?}");
        }
        assert_eq!(errors("\u{feff}{\"mcpServers\": {}}"), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_known_is_a_warning() {
        let text = r#"{"mcpServers": {"s": {"command": "x", "alwaysAllow": [], "args": ["${input:k}"]},
        "off": {"command": "x", "disabled": true}, "on": {"command": "x", "disabled": false},
        "o": {"url": "https://h", "oauth": {"enabled": true}}}}"#;
        let parsed = parse(text);
        assert_eq!(
            parsed.servers.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
            ["s", "on", "o"]
        );
        assert!(parsed.flaws.iter().all(|flaw| flaw.severity == Severity::Warning));
        let found = errors(text);
        assert!(found[0].starts_with("mcp.json:1: `mcpServers.s.alwaysAllow` is not known"));
        assert!(found[1].contains("has a `${...}` that is no variable"));
        assert!(found[2].starts_with("mcp.json:2: `mcpServers.off` is disabled"));
        assert!(found[3].starts_with("mcp.json:3: `mcpServers.o.oauth.enabled` is not known"));
    }

    #[test]
    fn names_of_servers_are_checked() {
        let found = errors(
            r#"{"mcpServers": {"a\u0000b": {"command": "x"}, "": {"command": "x"},
        "x\u202ey": {"command": "x"}, "s": {"command": "x"}, "s": {"command": "y"}, "t": 3}}"#,
        );
        assert!(
            found[0].starts_with("mcp.json:1: `mcpServers.a\\u{0}b` cannot be a name"),
            "{found:?}"
        );
        assert!(found[1].starts_with("mcp.json:1: `mcpServers.` cannot be a name"));
        assert!(found[2].starts_with("mcp.json:2: `mcpServers.x\\u{202e}y` cannot be a name"));
        assert!(found[3].starts_with("mcp.json:2: `mcpServers.s` is there twice"));
        assert!(found[4].starts_with("mcp.json:2: `mcpServers.t` must be an object"));
    }

    #[test]
    fn a_name_may_be_one_of_the_registry_unless_rules_could_not_tell_it_from_another() {
        let text = |names: &[&str]| {
            let server = |name: &&str| format!("{name:?}: {{\"command\": \"x\"}}");
            let servers: Vec<String> = names.iter().map(server).collect();
            format!("{{\"mcpServers\": {{{}}}}}", servers.join(", "))
        };
        assert!(errors(&text(&["com.github/github", "com.github/git", "github"])).is_empty());
        for names in [["com.github", "com.github/github"], ["a/b/c", "a/b"]] {
            let found = errors(&text(&names));
            assert!(found[0].contains("cannot be told from"), "{found:?}");
        }
    }

    #[test]
    fn secrets_are_shown_nowhere() {
        let text = r#"{"mcpServers": {
        "a": {"command": "x", "args": ["--key", "${GITHUB_TOKEN}"], "env": {"K": "hunter2"}},
        "b": {"url": "https://h/?key=hunter2", "headers": {"K": "hunter2", "X": "${NONE}"}},
        "h": {"url": "https://h/", "oauth": {"clientSecret": "hunter2", "clientId": 7}},
        "j": {"url": "https://h/", "oauth": {"clientSecret": "hunter2"}},
        "c": {"url": "hunter2"}, "i": {"command": "x", "env": {"K": "${hunter2:x}"}}, "d": {"command": "x", "env": {"K": ["hunter2"]}},
        "e": {"url": "http://h", "headers": {"K": "hunter2\n"}},
        "f": {"type": "hunter2", "command": "x"}, "g": {"url": "https://h/?key=hunter2"}}}"#;
        let parsed = parse(text);
        assert_eq!((parsed.servers.len(), parsed.flaws.len()), (4, 7));
        assert!(!format!("{parsed:?}").contains("hunter2"));
        assert!(!errors(text).concat().contains("hunter2"));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in any::<String>()) {
            let parsed = parse(&text);
            prop_assert!(!parsed.flaws.is_empty() || text.contains("mcpServers"));
        }
    }
}

mod tool_filter {
    use crate::config::*;

    #[test]
    fn one_pattern_offers_and_none_hides() {
        let table: &[(&[&str], &[&str], &[&str])] = &[
            (&[], &["a", "delete_a"], &[]),
            (&["*"], &["a", "x/y"], &[]),
            (&["get_*", "list"], &["get_a", "list"], &["set_a", "lists"]),
            (&["!delete_*"], &["get_a"], &["delete_a"]),
            (&["!get_b", "get_*"], &["get_a"], &["get_b", "set_a"]),
        ];
        for (patterns, offered, hidden) in table {
            let filter = ToolFilter::new(patterns.iter().copied()).unwrap();
            assert!(offered.iter().all(|tool| filter.offers(tool)), "{patterns:?}");
            assert!(!hidden.iter().any(|tool| filter.offers(tool)), "{patterns:?}");
        }
        assert!(ToolFilter::new(["a", "!["]).unwrap_err().starts_with("`![`: "));
    }
}
