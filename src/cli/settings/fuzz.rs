//! A fuzz target for settings files.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::env::Environment;
use crate::settings::resolve::Settings;
use crate::settings::row::Key;
use crate::settings::{print, value};
use ctxfs_store::SETTINGS;

/// Checks that a settings file is either refused with its path and a hint, or that printing the
/// settings gives a file of the same settings. As a store's own file, it is never refused.
pub fn fuzz_settings(data: &[u8]) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("given.toml");
    let environment = Environment { home: Some(dir.path().to_owned()), ..Environment::default() };
    fs::write(&path, data).expect("room");
    let store = vec![(Key::Store, value::Value::Path(dir.path().to_owned()))];
    fs::write(dir.path().join(SETTINGS), data).expect("room");
    let of_store = Settings::load(None, store, &environment).expect("nothing in a store fails");
    assert!(of_store.notices().len() <= 2, "{of_store:?}");
    assert!(of_store.redact.apply.value == "off", "{of_store:?}");
    let settings = match Settings::load(Some(&path), Vec::new(), &environment) {
        Ok(settings) => settings,
        Err(failure) => {
            assert!(failure.message.contains(&*path.to_string_lossy()), "{failure:?}");
            assert!(failure.hint.is_some(), "{failure:?}");
            return;
        }
    };
    fs::write(&path, print::toml(&settings, None, &environment)).expect("room");
    let again = Settings::load(Some(&path), Vec::new(), &environment);
    let again = again.expect("what is printed is a settings file");
    assert_eq!(said(&again, &path, &environment), said(&settings, &path, &environment));
}

/// Returns the settings without their origins.
fn said(settings: &Settings, path: &Path, environment: &Environment) -> Value {
    let mut value = print::json(settings, None, environment);
    assert_eq!(value["files"], serde_json::json!([path]));
    without_origins(&mut value);
    value
}

fn without_origins(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("origin");
            members.values_mut().for_each(without_origins);
        }
        Value::Array(items) => items.iter_mut().for_each(without_origins),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
