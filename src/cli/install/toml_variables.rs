//! The variables that Codex sets for its commands, in whatever form its settings have the table.

use toml_edit::{DocumentMut, InlineTable, Item, TableLike, Value};

use crate::install::entry::{TextEntry, ValueEntry};
use crate::install::shape::WrongShape;
use crate::install::toml_text;
use crate::install::transplant::transplant;

const POLICY: &str = "shell_environment_policy";
const SET: &str = "set";
/// The list of the variables that commands get; all, if it is empty. It counts for those that are
/// set, too.
const ONLY: &[&str] = &[POLICY, "include_only"];

/// Returns `text` with all of `variables`.
pub(super) fn with(text: &str, variables: &[ValueEntry]) -> Result<String, WrongShape> {
    let mut document = toml_text::parse(text)?;
    if !document.contains_key(POLICY) {
        return Ok(toml_text::with_block(text, &block(text, variables)));
    }
    let plain = document.to_string();
    let policy = document.get_mut(POLICY).and_then(Item::as_table_like_mut);
    let policy = policy.ok_or_else(|| WrongShape::new(&[POLICY], "is not a table"))?;
    if !policy.contains_key(SET) {
        policy.insert(SET, toml_edit::value(InlineTable::new()));
    }
    let set = policy.get_mut(SET).and_then(Item::as_table_like_mut);
    let set = set.ok_or_else(|| WrongShape::new(&[POLICY, SET], "is not a table"))?;
    for variable in variables {
        put(set, variable)?;
    }
    let text = transplant(text, &plain, &document.to_string());
    if !has_only(&document) {
        return Ok(text);
    }
    variables.iter().try_fold(text, |text, variable| toml_text::with(&text, &only(variable)))
}

/// Returns `text` without `variables`, and without the tables if this leaves them empty. What
/// `before` has, the same file before it had the variables, is put back.
pub(super) fn without(
    text: &str,
    variables: &[ValueEntry],
    before: Option<&str>,
) -> Result<String, WrongShape> {
    let old = before.and_then(|before| toml_text::parse(before).ok()).unwrap_or_default();
    let bare = |text: String, variable| toml_text::without(&text, &only(variable), before);
    let text = variables.iter().try_fold(text.to_owned(), bare)?;
    let mut document = toml_text::parse(&text)?;
    let block = block(&text, variables);
    let is_ours_alone = set_in(&document).is_some_and(|set| set.len() == variables.len());
    if is_ours_alone && !old.contains_key(POLICY) && text.contains(&block) {
        return Ok(toml_text::without_block(&text, &block));
    }
    let plain = document.to_string();
    let Some(policy) = document.get_mut(POLICY).and_then(Item::as_table_like_mut) else {
        return Ok(text);
    };
    let Some(set) = policy.get_mut(SET).and_then(Item::as_table_like_mut) else { return Ok(text) };
    for variable in variables {
        take(set, variable, set_in(&old).and_then(|old| old.get(variable.name)));
    }
    if set.is_empty() && set_in(&old).is_none() {
        policy.remove(SET);
    }
    if policy.is_empty() && !old.contains_key(POLICY) {
        document.remove(POLICY);
    }
    Ok(transplant(&text, &plain, &document.to_string()))
}

/// Returns the value of a variable, if `text` is TOML and has it.
pub(super) fn value(text: &str, name: &str) -> Option<String> {
    let document = toml_text::parse(text).ok()?;
    Some(set_in(&document)?.get(name)?.as_str()?.to_owned())
}

fn set_in(document: &DocumentMut) -> Option<&dyn TableLike> {
    document.get(POLICY)?.as_table_like()?.get(SET)?.as_table_like()
}

fn has_only(document: &DocumentMut) -> bool {
    let policy = document.get(POLICY).and_then(Item::as_table_like);
    let only = policy.and_then(|policy| policy.get(ONLY[1])?.as_array());
    only.is_some_and(|only| !only.is_empty())
}

fn only(variable: &ValueEntry) -> TextEntry {
    TextEntry { path: ONLY, text: variable.name.to_owned() }
}

fn put(set: &mut dyn TableLike, variable: &ValueEntry) -> Result<(), WrongShape> {
    let ValueEntry { name, value, .. } = variable;
    let Some(item) = set.get_mut(name) else {
        set.insert(name, toml_edit::value(value));
        return Ok(());
    };
    let now = item.as_value_mut().filter(|now| now.is_str());
    let now = now.ok_or_else(|| WrongShape::new(&[POLICY, SET, name], "is not a text"))?;
    if variable.replaces && now.as_str() != Some(value) {
        replace(now, Value::from(value));
    }
    Ok(())
}

fn take(set: &mut dyn TableLike, variable: &ValueEntry, old: Option<&Item>) {
    let Some(now) = set.get_mut(variable.name).and_then(Item::as_value_mut) else { return };
    if !now.as_str().is_some_and(variable.is_ours) {
        return;
    }
    let former = variable.former.as_ref().map(Value::from);
    match old.and_then(Item::as_value).cloned().or(former) {
        Some(former) => replace(now, former),
        None => drop(set.remove(variable.name)),
    }
}

/// Replaces a value, and keeps what is around it.
fn replace(now: &mut Value, new: Value) {
    let decor = now.decor().clone();
    *now = new;
    *now.decor_mut() = decor;
}

fn block(text: &str, variables: &[ValueEntry]) -> String {
    let newline = toml_text::newline(text);
    let line = |variable: &ValueEntry| {
        let value = Value::from(&variable.value).to_string();
        format!("{} = {}{newline}", variable.name, value.trim())
    };
    let lines: String = variables.iter().map(line).collect();
    format!("[{POLICY}.{SET}]{newline}{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> [ValueEntry; 2] {
        let path = "/home/ann/.codex/ctxfs-shell.bash".to_owned();
        let is_ours = |value: &str| value.ends_with("ctxfs-shell.bash");
        [
            ValueEntry { name: "BASH_ENV", value: path, former: None, replaces: true, is_ours },
            ValueEntry {
                name: "SHLVL",
                value: "1".to_owned(),
                former: None,
                replaces: false,
                is_ours: |value| value == "1",
            },
        ]
    }

    #[test]
    fn all_forms_of_the_table() {
        for text in [
            "",
            "# c\n",
            "model = \"x\"\r\n[z]\r\na = 1\r\n",
            "[shell_environment_policy]\n",
            "[shell_environment_policy]\ninherit = \"core\" # why\n\n[z]\na = 1\n",
            "[shell_environment_policy]\r\nexclude = [\"A*\"]\r\n",
            "[shell_environment_policy]\nset = { A = \"1\" } # why\nexclude = []\n",
            "[shell_environment_policy]\nset = {}\n",
            "[shell_environment_policy]\nset.A = \"1\" # a\nset.B = \"2\"\n",
            "[shell_environment_policy.set]\n# mine\nA = \"1\" # a\n\n[z]\na = 1\n",
            "[shell_environment_policy.set]\n",
            "shell_environment_policy.set.A = \"1\"\nmodel = \"x\"\n",
            "shell_environment_policy.inherit = \"all\"\n[z]\na = 1\n",
            "shell_environment_policy = { inherit = \"all\", set = { A = '1' } }\n",
            "shell_environment_policy = { inherit = \"all\" }\n",
            "[shell_environment_policy]\ninclude_only = [\"PATH\", 'HOME'] # these\n",
            "[shell_environment_policy]\ninclude_only = []\nset = { A = \"1\" }\n",
            "[shell_environment_policy]\nset = { BASH_ENV = '/my/\"env', B = \"2\" } # why\n",
            "[shell_environment_policy.set]\nBASH_ENV = \"/m\\u0079\" # why\nSHLVL = \"4\"\n",
        ] {
            let installed = with(text, &variables()).unwrap();
            assert_eq!(value(&installed, "BASH_ENV").as_ref(), Some(&variables()[0].value));
            let level = value(text, "SHLVL").unwrap_or("1".to_owned());
            assert_eq!(value(&installed, "SHLVL"), Some(level), "{installed}");
            assert_eq!(with(&installed, &variables()).unwrap(), installed, "twice");
            let mut table: toml_edit::DocumentMut = installed.parse().unwrap();
            let policy = &mut table[POLICY];
            let only =
                policy.get("include_only").and_then(Item::as_array).map(toml_edit::Array::len);
            assert!([None, Some(0), Some(4)].contains(&only), "{installed}");
            let removed = without(&installed, &variables(), Some(text)).unwrap();
            assert_eq!(removed, text, "{installed}");
        }
    }

    #[test]
    fn the_value_before_is_put_back_without_a_copy() {
        let text = "[shell_environment_policy]\nset = { BASH_ENV = \"/my/env\" }\n";
        let mut variables = variables();
        variables[0].former = value(text, "BASH_ENV");
        let installed = with(text, &variables).unwrap();
        assert_eq!(without(&installed, &variables, None).unwrap(), text);
    }

    #[test]
    fn what_another_has_set_since_stays() {
        let installed = with("", &variables()).unwrap();
        let theirs = installed.replace(&variables()[0].value, "/theirs");
        let removed = without(&theirs, &variables(), Some("")).unwrap();
        assert_eq!(removed, "[shell_environment_policy.set]\nBASH_ENV = \"/theirs\"\n");
    }

    #[test]
    fn other_shapes_are_refused() {
        let refused = |text: &str| with(text, &variables()).unwrap_err().to_string();
        assert!(refused("shell_environment_policy = 1").contains("is not a table"));
        let set = "[shell_environment_policy]\nset = 1";
        assert!(refused(set).contains("`shell_environment_policy.set` is not a table"));
        let value = "[shell_environment_policy.set]\nBASH_ENV = 1";
        assert!(refused(value).contains("`shell_environment_policy.set.BASH_ENV` is not a text"));
    }
}
