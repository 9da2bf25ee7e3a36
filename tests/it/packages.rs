//! What `scripts/package` packs agrees with `Cargo.toml` and with itself, as far as that is known
//! without building. `scripts/package --test` tests the packages.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

const SCRIPT: &str = "scripts/package";
const PARTS: &str = "scripts/packaging";

#[test]
fn the_version_stands_in_cargo_toml_alone() {
    let scripts = scripts();
    assert!(scripts.len() >= 10, "{scripts:?}");
    for path in scripts {
        let text = fs::read_to_string(&path).unwrap();
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '.');
        assert!(!words.any(|word| word == env!("CARGO_PKG_VERSION")), "{}", path.display());
    }
    let package = npm();
    for field in ["version", "description", "license"] {
        assert!(package.get(field).is_none(), "{field} is that of Cargo.toml");
    }
}

#[test]
fn files_that_the_debian_package_lists_are_there() {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let deb = &manifest["package"]["metadata"]["deb"];
    let assets = deb["assets"].as_array().unwrap();
    assert!(assets.len() >= 10);
    let script = read(SCRIPT);
    for asset in assets {
        let source = asset[0].as_str().unwrap();
        let is_there = match source.strip_prefix("target/staging/") {
            Some(staged) => is_staged(staged.trim_end_matches("/*"), &script),
            None => source == "target/release/ctxfs" || top().join(source).is_file(),
        };
        assert!(is_there, "{source}");
    }
    let units = deb["maintainer-scripts"].as_str().unwrap();
    assert!(is_staged(units.strip_prefix("target/staging/").unwrap(), &script));
}

/// Returns true if the script names what it makes in its staging directory, or the directory of a
/// name that has a variable in it.
fn is_staged(path: &str, script: &str) -> bool {
    let path = if path.ends_with("-user.service") { "units/$unit.service" } else { path };
    script.contains(&format!("$staging/{path}"))
}

#[test]
fn files_that_the_npm_package_lists_are_there() {
    let package = npm();
    assert_eq!(package["name"], env!("CARGO_PKG_NAME"));
    let launcher = package["bin"]["ctxfs"].as_str().unwrap();
    let mode =
        top().join(PARTS).join("npm").join(launcher).metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
    let packed: Vec<&str> =
        package["files"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    for name in machines().iter().map(String::as_str).chain([launcher, "licenses"]) {
        assert!(packed.contains(&name), "{name}");
    }
    let launcher = read(&format!("{PARTS}/npm/{launcher}"));
    assert!(machines().iter().all(|name| launcher.contains(&format!("machine={name} "))));
}

/// What the manifests of plug-ins, bundles and registries have to say, beside what `scripts/package`
/// adds. Their own tools and schemas say the same.
#[test]
fn manifests_agree_with_what_is_packed() {
    let script = read(SCRIPT);
    let manifest = |file: &str| -> serde_json::Value {
        assert!(script.contains(&format!("{PARTS}/{file}")), "{file} is not packed");
        serde_json::from_str(&read(&format!("{PARTS}/{file}"))).unwrap()
    };
    let plugin = manifest("agent-plugin/plugin.json");
    let servers = manifest("agent-plugin/mcp.json");
    for (schema, named) in [("plugin", &plugin), ("mcp", &servers)] {
        let schema = format!("https://agent-plugins.org/schemas/1.0.0/{schema}.schema.json");
        assert_eq!(named["$schema"], schema);
    }
    let bundle = manifest("mcpb/manifest.json");
    assert_eq!(bundle["server"]["type"], "binary");
    let server = &bundle["server"]["mcp_config"];
    let programs = [
        (&servers["mcpServers"]["ctxfs"]["command"], "./bin/ctxfs"),
        (&bundle["server"]["entry_point"], "bin/ctxfs"),
        (&server["command"], "${__dirname}/bin/ctxfs"),
    ];
    for (found, wanted) in programs {
        assert_eq!(found, wanted);
    }
    let entry = manifest("server.json");
    for arguments in [&servers["mcpServers"]["ctxfs"]["args"], &server["args"]] {
        assert_eq!(*arguments, serde_json::json!(["mcp"]));
    }
    for package in entry["packages"].as_array().unwrap() {
        assert_eq!(package["identifier"], env!("CARGO_PKG_NAME"));
        assert_eq!(package["transport"]["type"], "stdio");
        assert_eq!(package["packageArguments"][0]["value"], "mcp");
    }
    assert!((1..=100).contains(&env!("CARGO_PKG_DESCRIPTION").len()), "the registry allows 100");
    for named in [&plugin, &bundle] {
        assert_eq!(named["name"], env!("CARGO_PKG_NAME"));
    }
    for field in ["version", "description", "license"] {
        assert!(
            [&plugin, &bundle, &entry].iter().all(|named| named.get(field).is_none()),
            "{field}"
        );
    }
}

/// Packages have the units of `scripts` without the comment above them, and with another program.
#[test]
fn units_can_be_rewritten() {
    for unit in ["scripts/ctxfs.service", "scripts/ctxfs-user.service"] {
        let text = read(unit);
        let (comment, rest) = text.split_once("\n\n").unwrap();
        assert!(comment.lines().all(|line| line.starts_with('#')), "{unit}");
        let starts: Vec<&str> =
            rest.lines().filter(|line| line.starts_with("ExecStart=")).collect();
        assert!(starts.len() == 1 && starts[0].contains("/bin/ctxfs mount "), "{unit}: {starts:?}");
        assert_eq!(rest.matches("bin/ctxfs").count(), 1, "{unit}");
    }
}

#[test]
fn tools_have_fixed_versions() {
    let python = read(&format!("{PARTS}/requirements.txt"));
    let python = python.lines().filter(|line| !line.starts_with('#'));
    assert!(python.clone().count() > 0 && python.clone().all(|line| line.contains("==")));
    let cargo = list(&format!("{PARTS}/tools"), "cargo_tools");
    assert!(!cargo.is_empty() && cargo.iter().all(|tool| tool.contains('@')), "{cargo:?}");
}

fn machines() -> Vec<String> {
    let machines = list(SCRIPT, "machines");
    assert_eq!(machines.len(), 2);
    machines
}

/// Returns the words of an array of a script.
fn list(script: &str, name: &str) -> Vec<String> {
    let text = read(script);
    let start = format!("{name}=(");
    let line = text.lines().find_map(|line| line.strip_prefix(&start)).unwrap();
    line.trim_end_matches(')').split(' ').map(str::to_owned).collect()
}

fn npm() -> serde_json::Value {
    serde_json::from_str(&read(&format!("{PARTS}/npm/package.json"))).unwrap()
}

fn scripts() -> Vec<PathBuf> {
    let dirs = ["", "/npm", "/agent-plugin", "/mcpb"].map(|dir| format!("{PARTS}{dir}"));
    let entries = dirs.iter().flat_map(|dir| fs::read_dir(top().join(dir)).unwrap());
    let files = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    files.chain([top().join(SCRIPT)]).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(top().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
