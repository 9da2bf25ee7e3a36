//! Tests.

use std::fs;

use tempfile::TempDir;

use ctxfs_core::model::LimitsByTool as _;

use super::*;

/// A home directory with settings files.
struct Home {
    dir: TempDir,
    environment: Environment,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        fs::create_dir_all(home.join(".config/ctxfs")).unwrap();
        fs::create_dir_all(home.join(".local/share/ctxfs")).unwrap();
        Self { dir, environment: Environment { home: Some(home), ..Environment::default() } }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.environment.home.as_ref().unwrap().join(name)
    }

    fn user(self, text: &str) -> Self {
        fs::write(self.path(".config/ctxfs/ctxfs.toml"), text).unwrap();
        self
    }

    fn store(self, text: &str) -> Self {
        fs::write(self.path(".local/share/ctxfs/ctxfs.toml"), text).unwrap();
        self
    }

    fn given(self, text: &str) -> Self {
        fs::write(self.path("given.toml"), text).unwrap();
        self
    }

    fn variable(mut self, name: &'static str, value: &str) -> Self {
        self.environment.settings.insert(name, value.into());
        self
    }

    fn load(&self, flags: Vec<(SettingKey, SettingValue)>) -> Result<Settings, Failure> {
        let given = self.path("given.toml");
        Settings::load(given.exists().then_some(given.as_path()), flags, &self.environment)
    }

    fn settings(&self) -> Settings {
        self.load(Vec::new()).unwrap()
    }

    /// Returns the origin of a setting, with the home directory replaced by `~`.
    fn origin(&self, settings: &Settings, key: SettingKey) -> String {
        let origin = settings.values[&key].origin.to_string();
        let home = self.dir.path().canonicalize().unwrap();
        origin.replace(&*home.to_string_lossy(), "~")
    }
}

#[test]
fn without_files_the_defaults_hold() {
    let home = Home::new();
    let settings = home.settings();
    assert_eq!(settings.limits(None), Limits::default());
    assert_eq!(settings.number(SettingKey::MinFree), Some(64 << 20));
    assert_eq!(settings.number(SettingKey::Quota), None);
    assert_eq!(settings.path(SettingKey::Mountpoint), None);
    assert!(settings.redaction().unwrap().is_none());
    assert!(settings.files.is_empty());
    assert_eq!(settings.store(&home.environment).unwrap(), home.path(".local/share/ctxfs"));
}

#[test]
fn each_layer_wins_over_those_before_it() {
    let mut home = Home::new();
    let mut said = Vec::new();
    let note =
        |home: &Home, flags: Vec<(SettingKey, SettingValue)>, said: &mut Vec<(String, u64)>| {
            let settings = home.load(flags).unwrap();
            let number = settings.number(SettingKey::Quota).unwrap_or(0);
            said.push((home.origin(&settings, SettingKey::Quota), number));
        };
    note(&home, Vec::new(), &mut said);
    home = home.user("# mine\nquota = 1\nmax_lines = 10\n");
    note(&home, Vec::new(), &mut said);
    home = home.store("quota = 2\n");
    note(&home, Vec::new(), &mut said);
    home = home.given("quota = 3\n");
    note(&home, Vec::new(), &mut said);
    home = home.variable(env::QUOTA, "4");
    note(&home, Vec::new(), &mut said);
    note(&home, vec![(SettingKey::Quota, SettingValue::Number(5))], &mut said);
    note(&home, vec![(SettingKey::Quota, SettingValue::Word("off"))], &mut said);
    let said: Vec<(&str, u64)> =
        said.iter().map(|(from, number)| (from.as_str(), *number)).collect();
    assert_eq!(
        said,
        [
            ("default", 0),
            ("~/.config/ctxfs/ctxfs.toml:2", 1),
            ("~/.local/share/ctxfs/ctxfs.toml:1", 2),
            ("~/given.toml:1", 3),
            ("CTXFS_QUOTA", 4),
            ("--quota", 5),
            ("--quota", 0),
        ]
    );
    let settings = home.settings();
    assert_eq!(
        home.origin(&settings, SettingKey::MaxLines),
        "~/.config/ctxfs/ctxfs.toml:3",
        "key by key"
    );
}

#[test]
fn a_store_named_by_a_file_has_settings_too() {
    let home = Home::new().user("store = \"~/other\"\nmountpoint = \"mnt\"\n");
    fs::create_dir(home.path("other")).unwrap();
    fs::write(home.path("other/ctxfs.toml"), "max_lines = 7\n").unwrap();
    let settings = home.settings();
    assert_eq!(settings.store(&home.environment).unwrap(), home.path("other"));
    assert_eq!(settings.limits(None).max_lines, 7);
    assert_eq!(settings.path(SettingKey::Mountpoint), Some(&*home.path(".config/ctxfs/mnt")));
    let flag = vec![(SettingKey::Store, SettingValue::Path(home.path("third")))];
    assert_eq!(home.load(flag).unwrap().limits(None).max_lines, 2000);
}

#[test]
fn a_command_names_what_it_would_not_find() {
    let home = TempDir::new().unwrap();
    let mut environment =
        Environment { home: Some(home.path().to_owned()), ..Environment::default() };
    let default = home.path().join(".local/share/ctxfs");
    let command = |store: &Path, environment: &Environment| {
        Settings::command_root(store, environment).path().to_owned()
    };
    let own = shell_word(&std::env::current_exe().unwrap().display().to_string());
    assert_eq!(command(&default, &environment), format!("{own} view"));
    fs::write(home.path().join(places::PROGRAM_NAME), "").unwrap();
    environment.search = vec![home.path().to_owned()];
    assert_eq!(command(&default, &environment), "ctxfs view");
    let other = Path::new("/my data");
    assert_eq!(command(other, &environment), "ctxfs view --store '/my data'");
    // A variable of this process is not one of the reader.
    let store = (crate::env::STORE, "/my data".into());
    environment.settings.insert(store.0, store.1);
    assert_eq!(command(other, &environment), "ctxfs view --store '/my data'");
}

#[test]
fn the_stores_own_file_cannot_move_it() {
    let settings = Home::new().store("\nstore = \"/elsewhere\"\nmax_lines = 7\n").settings();
    assert!(settings.store.as_ref().unwrap().ends_with(".local/share/ctxfs"));
    assert_eq!(settings.limits(None).max_lines, 7);
    let [notice] = &settings.notices[..] else { panic!("{:?}", settings.notices) };
    assert!(notice.contains(": store is not read from a store; put it into "), "{notice}");
    assert!(notice.ends_with(".config/ctxfs/ctxfs.toml"), "{notice}");
}

#[test]
fn the_administrators_file_counts_below_the_users() {
    let mut home = Home::new().user("quota = 1\n").store("[permissions]\n\"*\" = \"allow\"\n");
    let system = home.path("system.toml");
    fs::write(&system, "quota = 2\nmax_lines = 3\n[permissions]\nread = \"deny\"\n").unwrap();
    home.environment.system_settings = Some(system.clone());
    let settings = home.settings();
    assert_eq!((settings.number(SettingKey::Quota), settings.limits(None).max_lines), (Some(1), 3));
    let [(_, permissions), _] = settings.calls.tables();
    let [(pattern, rule)] = &permissions.into_iter().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((&**pattern, rule.value), ("read", "deny"));
    assert!(rule.origin.to_string().ends_with("system.toml:4"), "{}", rule.origin);
    fs::write(&system, "quota = -1\n").unwrap();
    assert!(home.load(Vec::new()).unwrap_err().message.contains("system.toml:1"));
}

#[test]
fn users_can_only_be_stricter_than_the_administrator() {
    let allow = "[permissions]\n\"shell/exec\" = \"allow\"\n\"docs/*\" = \"deny\"\n\
                 [risk]\n\"shell/exec\" = \"read\"\n";
    let mut home = Home::new().user(allow).given(allow);
    let system = home.path("system.toml");
    let text = "[permissions]\nexecute = \"deny\"\n\"docs/*\" = \"allow\"\n\
                [risk]\n\"shell/*\" = \"execute\"\n";
    fs::write(&system, text).unwrap();
    let verdict = |home: &Home, tool: &str| {
        let settings = home.settings();
        let risk = settings.calls.risks(&settings.floor).risk(tool, None);
        settings.calls.permissions(&settings.floor).rule(tool, risk).verdict.as_str()
    };
    assert_eq!(verdict(&home, "shell/exec"), "allow");
    home.environment.system_settings = Some(system);
    assert_eq!([verdict(&home, "shell/exec"), verdict(&home, "docs/x")], ["deny", "deny"]);
}

#[test]
fn errors_in_any_source_are_refused() {
    let message = |home: Home| home.load(Vec::new()).unwrap_err().message;
    assert!(message(Home::new().user("x = 1")).contains(".config/ctxfs/ctxfs.toml:1: unknown key"));
    let stores = Home::new().store("x = 1").settings();
    assert!(stores.notices[0].contains("share/ctxfs/ctxfs.toml:1: unknown key"));
    assert!(message(Home::new().given("x = 1")).contains("given.toml:1: unknown key"));
    assert_eq!(
        message(Home::new().variable(env::TOOL_OUTPUT_MAX_LINES, "many")),
        "`TOOL_OUTPUT_MAX_LINES` cannot be `many`: expected a positive whole number, \"never\" or \
         \"mirror\""
    );
    assert_eq!(
        message(Home::new().variable(env::REDACT, "yes")),
        "`CTXFS_REDACT` cannot be `yes`: expected \"off\", \"views\" or \"stored\""
    );
    let home = Home::new();
    let absent = Settings::load(Some(&home.path("absent")), Vec::new(), &home.environment);
    assert!(absent.unwrap_err().message.starts_with("there is no settings file `"));
}

#[test]
fn limits_differ_from_tool_to_tool() {
    let home = Home::new()
        .user("max_lines = 10\n[tool.\"github/*\"]\nmax_lines = 20\ndirection = \"tail\"\n")
        .store("[tool.\"github/search_issues\"]\nmax_lines = 30\n")
        .variable(env::TOOL_OUTPUT_MAX_LINES, "40");
    let settings = home.settings();
    let lines = |tool: Option<&str>| settings.limits(tool).max_lines;
    assert_eq!(lines(None), 40);
    assert_eq!(lines(Some("shell/exec")), 40);
    assert_eq!(lines(Some("github/get_file")), 20);
    assert_eq!(lines(Some("github/search_issues")), 30);
    assert_eq!(settings.limits(Some("github/search_issues")).direction, Direction::Tail);
}

#[test]
fn never_and_mirror_lift_a_limit() {
    let text = "max_lines = \"never\"\nretention_days = \"never\"\ntoken_budget = 500\n\
                [tool.a]\nmax_bytes = \"mirror\"\ntoken_budget = \"off\"\n";
    let home = Home::new().user(text);
    let settings = home.settings();
    let (all, one) = (settings.limits(None), settings.limits(Some("a")));
    assert_eq!((all.max_lines, all.max_bytes, all.mirror), (Limits::NEVER, 51200, false));
    assert_eq!((all.retention_days, all.token_budget), (u32::MAX, Some(500)));
    assert_eq!((one.max_bytes, one.mirror, one.token_budget), (Limits::NEVER, true, None));
    assert_eq!(one.max_inline_bytes, Limits::default().max_inline_bytes);
}

#[test]
fn mirror_lifts_the_other_limit_of_the_form_too() {
    let lifted = |text: &str| {
        let limits = Home::new().user(text).settings().limits(None);
        assert!(limits.mirror, "{text}");
        let pairs = [
            (limits.max_inline_chars, limits.max_inline_bytes),
            (limits.max_lines, limits.max_bytes),
            (limits.message_threshold, limits.message_threshold),
            (limits.tool_response_max_bytes, limits.token_budget.unwrap_or(Limits::NEVER)),
        ];
        pairs.map(|(one, other)| one == Limits::NEVER && other == Limits::NEVER)
    };
    assert_eq!(lifted("max_inline_chars = \"mirror\"\n"), [true, false, false, false]);
    assert_eq!(lifted("max_lines = \"mirror\"\n"), [false, true, false, false]);
    assert_eq!(lifted("message_threshold = \"mirror\"\n"), [false, false, true, false]);
    let text = "tool_response_max_bytes = \"mirror\"\ntoken_budget = 5\n";
    assert_eq!(lifted(text), [false, false, false, true]);
}

#[test]
fn a_redact_table_turns_redaction_on() {
    let applied = |home: Home| home.settings().redaction().unwrap().map(|found| found.stored);
    assert_eq!(applied(Home::new()), None);
    assert_eq!(applied(Home::new().user("[redact]\n")), Some(false));
    assert_eq!(applied(Home::new().user("redact = \"stored\"\n")), Some(true));
    let store = Home::new().user("redact = \"views\"").store("redact = \"off\"");
    assert_eq!(applied(store), Some(false), "the store's file does not count");
    assert_eq!(applied(Home::new().user("redact = \"views\"").given("redact = \"off\"")), None);
    assert_eq!(applied(Home::new().user("[redact]").variable(env::REDACT, "stored")), Some(true));
    assert_eq!(applied(Home::new().variable(env::REDACT, "views")), Some(false));
}

#[test]
fn sets_and_rules_are_those_of_the_last_file_that_has_them() {
    let home = Home::new()
        .user("[redact]\nsets = [\"aws\"]\nrules = [{ name = \"a\", regex = \"aaaaaaaa\" }]\n")
        .given("[redact]\nsets = [\"npm\"]\n");
    let names =
        ctxfs_core::model::Redactor::names(&*home.settings().redaction().unwrap().unwrap().rules)
            .to_vec();
    assert_eq!(names, ["a", "npm-token"]);
}

#[test]
fn places_without_a_home() {
    let environment = Environment::default();
    let settings = Settings::load(None, Vec::new(), &environment).unwrap();
    assert!(settings.store(&environment).is_err());
}

fn tools(entries: &[(&str, u64)]) -> ToolSettings {
    let setting =
        |number| Setting { value: SettingValue::Number(number), origin: SettingOrigin::Default };
    let entries = entries.iter();
    ToolSettings::new(
        entries.map(|(pattern, number)| {
            ((*pattern).to_owned(), SettingKey::MaxLines, setting(*number))
        }),
    )
}

fn found(tools: &ToolSettings, tool: &str) -> Option<SettingValue> {
    tools.find(tool, SettingKey::MaxLines).map(|setting| setting.value.clone())
}

#[test]
fn the_most_specific_wins() {
    let all = tools(&[
        ("github/search_issues", 1),
        ("github/*", 2),
        ("*", 3),
        ("github/search_*", 4),
        ("{shell,bash}/exec", 5),
    ]);
    let cases = [
        ("github/search_issues", 1),
        ("github/search_code", 4),
        ("github/get_file", 2),
        ("gitlab/get_file", 3),
        ("read", 3),
        ("bash/exec", 5),
    ];
    for (tool, number) in cases {
        assert_eq!(found(&all, tool), Some(SettingValue::Number(number)), "{tool}");
    }
    assert_eq!(all.find("read", SettingKey::MaxBytes), None);
    assert_eq!(found(&tools(&[("github/*", 2)]), "gitlab/x"), None);
}

#[test]
fn of_the_same_pattern_the_later_wins() {
    let all = tools(&[("github/*", 1), ("github/*", 2), ("gitlab/*", 3)]);
    assert_eq!(found(&all, "github/x"), Some(SettingValue::Number(2)));
    assert_eq!(all.entries().count(), 2);
}

#[test]
fn defaults_are_those_of_the_model() {
    assert_eq!(Settings::defaults().limits(None), Limits::default());
    assert_eq!(Settings::defaults().limits(Some("shell/exec")), Limits::default());
}

#[test]
fn defaults_are_those_of_the_layer() {
    assert_eq!(Settings::defaults().extraction().unwrap(), ExtractSettings::default());
}
