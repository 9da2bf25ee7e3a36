//! Adds and removes entries in TOML files without changing any other byte.
//!
//! `toml_edit` normalizes line ends and the end of the file. An edit is therefore made in a
//! `toml_edit` document, and then applied to the original text ([`transplant`]).

use toml_edit::{Array, DocumentMut, InlineTable, Item, TableLike, Value};

use crate::install::entry::{TextEntry, ValueEntry, WrongShape};

/// Returns `text` with `entry`. The path of the entry consists of a table and a list in it.
pub(crate) fn with_text(text: &str, entry: &TextEntry) -> Result<String, WrongShape> {
    let mut document = parse(text)?;
    if has_text(&document, entry) {
        return Ok(text.to_owned());
    }
    let [table, list] = names(entry);
    if !document.contains_key(table) {
        return Ok(with_block(text, &text_block(text, entry)));
    }
    let plain = document.to_string();
    let inner = document.get_mut(table).and_then(Item::as_table_like_mut);
    let inner = inner.ok_or_else(|| WrongShape::new(&[table], "is not a table"))?;
    if !inner.contains_key(list) {
        inner.insert(list, toml_edit::value(Array::new()));
    }
    let array = inner.get_mut(list).and_then(Item::as_array_mut);
    push_text(array.ok_or_else(|| WrongShape::new(entry.path, "is not a list"))?, &entry.text);
    Ok(transplant(text, &plain, &document.to_string()))
}

/// Returns `text` without `entry`, and without its list and table if they become empty. `before` is
/// the text of the file from before the installation. Everything that `before` contains is kept.
pub(crate) fn without_text(
    text: &str,
    entry: &TextEntry,
    before: Option<&str>,
) -> Result<String, WrongShape> {
    let mut document = parse(text)?;
    let before = before.and_then(|before| parse(before).ok()).unwrap_or_default();
    if has_text(&before, entry) || !has_text(&document, entry) {
        return Ok(text.to_owned());
    }
    if let (Some(rest), false) = (without_table(text, &document, entry), has_table(&before, entry))
    {
        return Ok(rest);
    }
    let plain = document.to_string();
    let [table, list] = names(entry);
    if let Some(inner) = document.get_mut(table).and_then(Item::as_table_like_mut) {
        take_text(inner, list, &entry.text);
        if is_empty_list(inner, list) && find_list(&before, entry).is_none() {
            inner.remove(list);
        }
    }
    Ok(transplant(text, &plain, &document.to_string()))
}

pub(crate) fn is_nothing(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim().is_empty()
}

pub(crate) fn parse(text: &str) -> Result<DocumentMut, WrongShape> {
    text.parse().map_err(|error| WrongShape::invalid("TOML", &error))
}

fn names(entry: &TextEntry) -> [&'static str; 2] {
    let [table, list] = entry.path else { unreachable!("the entries are constants") };
    [table, list]
}

fn find_list<'a>(document: &'a DocumentMut, entry: &TextEntry) -> Option<&'a Array> {
    let [table, list] = names(entry);
    document.get(table)?.as_table_like()?.get(list)?.as_array()
}

fn has_text(document: &DocumentMut, entry: &TextEntry) -> bool {
    let is_it = |value: &Value| value.as_str() == Some(&entry.text);
    find_list(document, entry).is_some_and(|array| array.iter().any(is_it))
}

fn has_table(document: &DocumentMut, entry: &TextEntry) -> bool {
    document.contains_key(names(entry)[0])
}

fn with_block(text: &str, block: &str) -> String {
    let newline = newline(text);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { newline };
    let gap = if is_nothing(text) { "" } else { newline };
    format!("{text}{end}{gap}{block}")
}

fn without_block(text: &str, block: &str) -> String {
    let Some((before, after)) = text.split_once(block) else { return text.to_owned() };
    let newline = newline(text);
    let is_gap = before.ends_with(&format!("\n{newline}"));
    let before = before.strip_suffix(newline).filter(|_| is_gap).unwrap_or(before);
    format!("{before}{after}")
}

fn without_table(text: &str, document: &DocumentMut, entry: &TextEntry) -> Option<String> {
    let [name, _] = names(entry);
    let has_more = document.get(name)?.as_table_like()?.len() > 1;
    let block = text_block(text, entry);
    let is_ours = !has_more && find_list(document, entry).is_some() && text.contains(&block);
    is_ours.then(|| without_block(text, &block))
}

fn text_block(text: &str, entry: &TextEntry) -> String {
    let ([table, list], newline) = (names(entry), newline(text));
    let value = Value::from(&*entry.text);
    format!("[{table}]{newline}{list} = [{}]{newline}", value.to_string().trim())
}

pub(crate) fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

// Adds the text on a new line if the last element has its own line. Comments keep their place.
fn push_text(array: &mut Array, text: &str) {
    let prefix = array.iter().last().and_then(|last| last.decor().prefix()?.as_str());
    let line = prefix.and_then(|prefix| prefix.rfind('\n').map(|at| prefix[at..].to_owned()));
    let Some(line) = line else { return array.push(text) };
    let trailing = array.trailing().as_str().unwrap_or_default().to_owned();
    let comment = trailing.rfind('\n').map_or("", |at| &trailing[..at]);
    let prefix = format!("{}{line}", comment.trim_end());
    array.push_formatted(Value::from(text).decorated(prefix, ""));
    if comment.contains('#') {
        array.set_trailing(&trailing[comment.len()..]);
    }
}

// Keeps a comment that is before the text.
fn take_text(table: &mut dyn TableLike, list: &str, text: &str) {
    let Some(array) = table.get_mut(list).and_then(Item::as_array_mut) else { return };
    let is_it = |value: &Value| value.as_str() == Some(text);
    let Some(at) = (0..array.len()).rfind(|at| array.get(*at).is_some_and(is_it)) else { return };
    let removed = array.remove(at);
    let prefix = removed.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
    if !prefix.contains('#') {
        return;
    }
    let comment = prefix.rfind('\n').map_or("", |at| &prefix[..at]);
    if let Some(next) = array.get_mut(at) {
        let own = next.decor().prefix().and_then(|own| own.as_str()).unwrap_or_default();
        let own = format!("{comment}{own}");
        next.decor_mut().set_prefix(own);
    } else {
        let trailing = format!("{comment}{}", array.trailing().as_str().unwrap_or_default());
        array.set_trailing(trailing);
    }
}

fn is_empty_list(table: &dyn TableLike, list: &str) -> bool {
    table.get(list).and_then(Item::as_array).is_some_and(Array::is_empty)
}

const POLICY: &str = "shell_environment_policy";
const SET: &str = "set";
// If this list is not empty, commands receive only the variables that it names. The list also
// restricts the variables that ctxfs sets.
const ONLY: &[&str] = &[POLICY, "include_only"];

pub(crate) fn with_variables(text: &str, variables: &[ValueEntry]) -> Result<String, WrongShape> {
    let mut document = parse(text)?;
    if !document.contains_key(POLICY) {
        return Ok(with_block(text, &variables_block(text, variables)));
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
        put_variable(set, variable)?;
    }
    let text = transplant(text, &plain, &document.to_string());
    if !has_only(&document) {
        return Ok(text);
    }
    variables.iter().try_fold(text, |text, variable| with_text(&text, &allowed_name(variable)))
}

/// Returns `text` without `variables`, and without tables that become empty. `before` is the text
/// of the file from before the installation. Values that `before` contains are restored.
pub(crate) fn without_variables(
    text: &str,
    variables: &[ValueEntry],
    before: Option<&str>,
) -> Result<String, WrongShape> {
    let old = before.and_then(|before| parse(before).ok()).unwrap_or_default();
    let bare = |text: String, variable| without_text(&text, &allowed_name(variable), before);
    let text = variables.iter().try_fold(text.to_owned(), bare)?;
    let mut document = parse(&text)?;
    let block = variables_block(&text, variables);
    let is_ours_alone = set_in(&document).is_some_and(|set| set.len() == variables.len());
    if is_ours_alone && !old.contains_key(POLICY) && text.contains(&block) {
        return Ok(without_block(&text, &block));
    }
    let plain = document.to_string();
    let Some(policy) = document.get_mut(POLICY).and_then(Item::as_table_like_mut) else {
        return Ok(text);
    };
    let Some(set) = policy.get_mut(SET).and_then(Item::as_table_like_mut) else { return Ok(text) };
    for variable in variables {
        take_variable(set, variable, set_in(&old).and_then(|old| old.get(variable.name)));
    }
    if set.is_empty() && set_in(&old).is_none() {
        policy.remove(SET);
    }
    if policy.is_empty() && !old.contains_key(POLICY) {
        document.remove(POLICY);
    }
    Ok(transplant(&text, &plain, &document.to_string()))
}

pub(crate) fn variable_value(text: &str, name: &str) -> Option<String> {
    let document = parse(text).ok()?;
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

fn allowed_name(variable: &ValueEntry) -> TextEntry {
    TextEntry { path: ONLY, text: variable.name.to_owned() }
}

fn put_variable(set: &mut dyn TableLike, variable: &ValueEntry) -> Result<(), WrongShape> {
    let ValueEntry { name, value, .. } = variable;
    let Some(item) = set.get_mut(name) else {
        set.insert(name, toml_edit::value(value));
        return Ok(());
    };
    let now = item.as_value_mut().filter(|now| now.is_str());
    let now = now.ok_or_else(|| WrongShape::new(&[POLICY, SET, name], "is not a text"))?;
    if variable.replaces && now.as_str() != Some(value) {
        replace_value(now, Value::from(value));
    }
    Ok(())
}

fn take_variable(set: &mut dyn TableLike, variable: &ValueEntry, old: Option<&Item>) {
    let Some(now) = set.get_mut(variable.name).and_then(Item::as_value_mut) else { return };
    if !now.as_str().is_some_and(variable.is_ours) {
        return;
    }
    let former = variable.former.as_ref().map(Value::from);
    match old.and_then(Item::as_value).cloned().or(former) {
        Some(former) => replace_value(now, former),
        None => drop(set.remove(variable.name)),
    }
}

fn replace_value(now: &mut Value, new: Value) {
    let decor = now.decor().clone();
    *now = new;
    *now.decor_mut() = decor;
}

fn variables_block(text: &str, variables: &[ValueEntry]) -> String {
    let newline = newline(text);
    let line = |variable: &ValueEntry| {
        let value = Value::from(&variable.value).to_string();
        format!("{} = {}{newline}", variable.name, value.trim())
    };
    let lines: String = variables.iter().map(line).collect();
    format!("[{POLICY}.{SET}]{newline}{lines}")
}

/// Returns `original` with the edit by which `edited` differs from `plain`. `plain` is `original`
/// as printed by `toml_edit`: with `\n` line ends, a final newline and no byte order mark. Every
/// byte outside the edit is preserved, and added lines use the line ends of `original`.
fn transplant(original: &str, plain: &str, edited: &str) -> String {
    if plain == edited {
        return original.to_owned();
    }
    let (plain, edited) = without_end(original, plain, edited);
    let start = common(plain.bytes(), edited.bytes(), usize::MAX);
    let most = plain.len().min(edited.len()) - start;
    let end = common(plain.bytes().rev(), edited.bytes().rev(), most);
    let (start, end) = (on_boundary(edited, start), end_on_boundary(edited, end));
    let added = &edited[start..edited.len() - end];
    let added = if original.contains("\r\n") { added.replace('\n', "\r\n") } else { added.into() };
    let (from, to) = (place(original, start), place(original, plain.len() - end));
    format!("{}{added}{}", &original[..from], &original[to..])
}

fn without_end<'a>(original: &str, plain: &'a str, edited: &'a str) -> (&'a str, &'a str) {
    match plain.strip_suffix('\n') {
        Some(bare) if !original.ends_with('\n') => {
            let is_at_end = edited.starts_with(bare);
            let edited = edited.strip_suffix('\n').filter(|_| !is_at_end).unwrap_or(edited);
            (bare, edited)
        }
        _ => (plain, edited),
    }
}

fn common(one: impl Iterator<Item = u8>, other: impl Iterator<Item = u8>, most: usize) -> usize {
    one.zip(other).take(most).take_while(|(a, b)| a == b).count()
}

fn on_boundary(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn end_on_boundary(text: &str, end: usize) -> usize {
    let found = (0..=end).rev().find(|end| text.is_char_boundary(text.len() - end));
    found.unwrap_or(0)
}

fn place(original: &str, at: usize) -> usize {
    let mark = if original.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let bytes = original.as_bytes();
    let (mut place, mut passed) = (mark, 0);
    while passed < at && place < bytes.len() {
        place += if bytes[place..].starts_with(b"\r\n") { 2 } else { 1 };
        passed += 1;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: TextEntry =
        TextEntry { path: &["sandbox_workspace_write", "writable_roots"], text: String::new() };

    fn entry() -> TextEntry {
        TextEntry { text: "/home/ann/.local/share/ctxfs".to_owned(), ..ENTRY }
    }

    #[test]
    fn all_else_stays() {
        for text in [
            "# c\n",
            "a = 1\r\nb = 2\r\n",
            "\u{feff}a = 1\n",
            "\u{feff}a = 1\r\n[sandbox_workspace_write]\r\nx = 1 # y\n[z]\r\n",
            "model = \"x\" # c\n\n[[p]]\nx = 1 # c\n\n[[p]]\nx = 2\n# end\n",
            "[sandbox_workspace_write]\nnetwork_access = true # why\n\n[other]\na=1",
            "[sandbox_workspace_write]\nwritable_roots = [\n  \"/a\", # one\n  \"/b\",\n]\n",
            "[sandbox_workspace_write]\nwritable_roots = [\n  \"/a\" # one\n]\n",
            "[sandbox_workspace_write]\nwritable_roots = [\n  \"/a\", # one\n  # two\n]\n",
            "[sandbox_workspace_write]\nwritable_roots = [\"/a\"]\n",
            "sandbox_workspace_write = { network_access = true }\n",
            "sandbox_workspace_write.network_access = true\n[x]\n",
        ] {
            let installed = with_text(text, &entry()).unwrap();
            assert!(has_text(&parse(&installed).unwrap(), &entry()), "{installed}");
            assert_eq!(with_text(&installed, &entry()).unwrap(), installed);
            let removed = without_text(&installed, &entry(), None).unwrap();
            assert_eq!(removed, text, "{installed}");
        }
    }

    #[test]
    fn a_list_continues_as_it_began() {
        let text = "[sandbox_workspace_write]\nwritable_roots = [\n  \"/a\", # one\n  \"/b\",\n]\n";
        let wanted =
            text.replace("  \"/b\",\n", "  \"/b\",\n  \"/home/ann/.local/share/ctxfs\",\n");
        assert_eq!(with_text(text, &entry()).unwrap(), wanted);
    }

    #[test]
    fn a_comment_stays_beside_its_text() {
        let text = "[sandbox_workspace_write]\nwritable_roots = [\n  \"/a\", # one\n]\n";
        let ours = "# one\n  \"/home/ann/.local/share/ctxfs\",\n";
        assert_eq!(with_text(text, &entry()).unwrap(), text.replace("# one\n", ours));
    }

    #[test]
    fn what_was_empty_before_stays() {
        for text in [
            "[sandbox_workspace_write]\nwritable_roots = []\n",
            "[sandbox_workspace_write] # c\n[z]\n",
        ] {
            let installed = with_text(text, &entry()).unwrap();
            assert_eq!(without_text(&installed, &entry(), Some(text)).unwrap(), text);
        }
    }

    #[test]
    fn other_shapes_are_refused() {
        let refused = |text: &str| with_text(text, &entry()).unwrap_err().to_string();
        assert!(refused("a = ").contains("line 1, column 5"), "{}", refused("a = "));
        assert!(refused("sandbox_workspace_write = 1").contains("is not a table"));
        let list = "[sandbox_workspace_write]\nwritable_roots = 1";
        assert!(refused(list).contains("`sandbox_workspace_write.writable_roots` is not a list"));
    }

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
            let installed = with_variables(text, &variables()).unwrap();
            assert_eq!(
                variable_value(&installed, "BASH_ENV").as_ref(),
                Some(&variables()[0].value)
            );
            let level = variable_value(text, "SHLVL").unwrap_or("1".to_owned());
            assert_eq!(variable_value(&installed, "SHLVL"), Some(level), "{installed}");
            assert_eq!(with_variables(&installed, &variables()).unwrap(), installed, "twice");
            let mut table: toml_edit::DocumentMut = installed.parse().unwrap();
            let policy = &mut table[POLICY];
            let only =
                policy.get("include_only").and_then(Item::as_array).map(toml_edit::Array::len);
            assert!([None, Some(0), Some(4)].contains(&only), "{installed}");
            let removed = without_variables(&installed, &variables(), Some(text)).unwrap();
            assert_eq!(removed, text, "{installed}");
        }
    }

    #[test]
    fn the_value_before_is_put_back_without_a_copy() {
        let text = "[shell_environment_policy]\nset = { BASH_ENV = \"/my/env\" }\n";
        let mut variables = variables();
        variables[0].former = variable_value(text, "BASH_ENV");
        let installed = with_variables(text, &variables).unwrap();
        assert_eq!(without_variables(&installed, &variables, None).unwrap(), text);
    }

    #[test]
    fn what_another_has_set_since_stays() {
        let installed = with_variables("", &variables()).unwrap();
        let theirs = installed.replace(&variables()[0].value, "/theirs");
        let removed = without_variables(&theirs, &variables(), Some("")).unwrap();
        assert_eq!(removed, "[shell_environment_policy.set]\nBASH_ENV = \"/theirs\"\n");
    }

    #[test]
    fn other_shapes_of_variables_are_refused() {
        let refused = |text: &str| with_variables(text, &variables()).unwrap_err().to_string();
        assert!(refused("shell_environment_policy = 1").contains("is not a table"));
        let set = "[shell_environment_policy]\nset = 1";
        assert!(refused(set).contains("`shell_environment_policy.set` is not a table"));
        let value = "[shell_environment_policy.set]\nBASH_ENV = 1";
        assert!(refused(value).contains("`shell_environment_policy.set.BASH_ENV` is not a text"));
    }

    #[test]
    fn nothing_else_changes() {
        assert_eq!(transplant("a\r\nb\r\n", "a\nb\n", "a\nx\nb\n"), "a\r\nx\r\nb\r\n");
        assert_eq!(transplant("a\r\nb\n", "a\nb\n", "a\nb"), "a\r\nb");
        assert_eq!(transplant("a\nb", "a\nb\n", "a\nb\nc\n"), "a\nb\nc\n");
        assert_eq!(transplant("a\nb", "a\nb\n", "x\na\nb\n"), "x\na\nb");
        assert_eq!(transplant("a\nb", "a\nb\n", "a\nb\n"), "a\nb");
        assert_eq!(transplant("\u{feff}a\n", "a\n", "xa\n"), "\u{feff}xa\n");
        assert_eq!(transplant("\u{e9}\r\n", "\u{e9}\n", "\u{e8}\n"), "\u{e8}\r\n");
        assert_eq!(transplant("", "", ""), "");
        assert_eq!(transplant("aa\n", "aa\n", "aaa\n"), "aaa\n");
    }
}
