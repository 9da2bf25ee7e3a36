//! A text in a list in a TOML file, put in and taken out without touching anything else.

use toml_edit::{Array, DocumentMut, Item, TableLike, Value};

use crate::install::entry::TextEntry;
use crate::install::shape::WrongShape;
use crate::install::transplant::transplant;

/// Returns `text` with `entry`, whose path is a table and a list in it.
pub(super) fn with(text: &str, entry: &TextEntry) -> Result<String, WrongShape> {
    let mut document = parse(text)?;
    if has(&document, entry) {
        return Ok(text.to_owned());
    }
    let [table, list] = names(entry);
    if !document.contains_key(table) {
        return Ok(with_block(text, &block(text, entry)));
    }
    let plain = document.to_string();
    let inner = document.get_mut(table).and_then(Item::as_table_like_mut);
    let inner = inner.ok_or_else(|| WrongShape::new(&[table], "is not a table"))?;
    if !inner.contains_key(list) {
        inner.insert(list, toml_edit::value(Array::new()));
    }
    let array = inner.get_mut(list).and_then(Item::as_array_mut);
    push(array.ok_or_else(|| WrongShape::new(entry.path, "is not a list"))?, &entry.text);
    Ok(transplant(text, &plain, &document.to_string()))
}

/// Returns `text` without `entry`, and without the list and the table if this leaves them empty.
/// Whatever `before` has, the same file before it had the entry, stays.
pub(super) fn without(
    text: &str,
    entry: &TextEntry,
    before: Option<&str>,
) -> Result<String, WrongShape> {
    let mut document = parse(text)?;
    let before = before.and_then(|before| parse(before).ok()).unwrap_or_default();
    if has(&before, entry) || !has(&document, entry) {
        return Ok(text.to_owned());
    }
    if let (Some(rest), false) = (without_table(text, &document, entry), is_table(&before, entry)) {
        return Ok(rest);
    }
    let plain = document.to_string();
    let [table, list] = names(entry);
    if let Some(inner) = document.get_mut(table).and_then(Item::as_table_like_mut) {
        take(inner, list, &entry.text);
        if is_empty_list(inner, list) && find(&before, entry).is_none() {
            inner.remove(list);
        }
    }
    Ok(transplant(text, &plain, &document.to_string()))
}

/// Returns true if there is nothing in `text`.
pub(super) fn is_nothing(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim().is_empty()
}

/// Parses a file.
pub(super) fn parse(text: &str) -> Result<DocumentMut, WrongShape> {
    text.parse().map_err(|error| WrongShape::invalid("TOML", &error))
}

fn names(entry: &TextEntry) -> [&'static str; 2] {
    let [table, list] = entry.path else { unreachable!("the entries are constants") };
    [table, list]
}

fn find<'a>(document: &'a DocumentMut, entry: &TextEntry) -> Option<&'a Array> {
    let [table, list] = names(entry);
    document.get(table)?.as_table_like()?.get(list)?.as_array()
}

fn has(document: &DocumentMut, entry: &TextEntry) -> bool {
    let is_it = |value: &Value| value.as_str() == Some(&entry.text);
    find(document, entry).is_some_and(|array| array.iter().any(is_it))
}

fn is_table(document: &DocumentMut, entry: &TextEntry) -> bool {
    document.contains_key(names(entry)[0])
}

/// Returns `text` with some lines at the end, behind all comments.
pub(super) fn with_block(text: &str, block: &str) -> String {
    let newline = newline(text);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { newline };
    let gap = if is_nothing(text) { "" } else { newline };
    format!("{text}{end}{gap}{block}")
}

/// Returns `text` without lines that [`with_block`] has put there.
pub(super) fn without_block(text: &str, block: &str) -> String {
    let Some((before, after)) = text.split_once(block) else { return text.to_owned() };
    let newline = newline(text);
    let is_gap = before.ends_with(&format!("\n{newline}"));
    let before = before.strip_suffix(newline).filter(|_| is_gap).unwrap_or(before);
    format!("{before}{after}")
}

/// Returns `text` without the table, if it is as [`with`] writes it.
fn without_table(text: &str, document: &DocumentMut, entry: &TextEntry) -> Option<String> {
    let [name, _] = names(entry);
    let has_more = document.get(name)?.as_table_like()?.len() > 1;
    let block = block(text, entry);
    let is_ours = !has_more && find(document, entry).is_some() && text.contains(&block);
    is_ours.then(|| without_block(text, &block))
}

fn block(text: &str, entry: &TextEntry) -> String {
    let ([table, list], newline) = (names(entry), newline(text));
    let value = Value::from(&*entry.text);
    format!("[{table}]{newline}{list} = [{}]{newline}", value.to_string().trim())
}

/// Returns the line end of a file.
pub(super) fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Appends a text, on a line of its own if the last one has that. Comments stay where they are.
fn push(array: &mut Array, text: &str) {
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

/// Removes a text. A comment before it stays.
fn take(table: &mut dyn TableLike, list: &str, text: &str) {
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
            let installed = with(text, &entry()).unwrap();
            assert!(has(&parse(&installed).unwrap(), &entry()), "{installed}");
            assert_eq!(with(&installed, &entry()).unwrap(), installed);
            let removed = without(&installed, &entry(), None).unwrap();
            assert_eq!(removed, text, "{installed}");
        }
    }

    #[test]
    fn a_list_continues_as_it_began() {
        let text = "[sandbox_workspace_write]\nwritable_roots = [\n  \"/a\", # one\n  \"/b\",\n]\n";
        let wanted =
            text.replace("  \"/b\",\n", "  \"/b\",\n  \"/home/ann/.local/share/ctxfs\",\n");
        assert_eq!(with(text, &entry()).unwrap(), wanted);
    }

    #[test]
    fn a_comment_stays_beside_its_text() {
        let text = "[sandbox_workspace_write]\nwritable_roots = [\n  \"/a\", # one\n]\n";
        let ours = "# one\n  \"/home/ann/.local/share/ctxfs\",\n";
        assert_eq!(with(text, &entry()).unwrap(), text.replace("# one\n", ours));
    }

    #[test]
    fn what_was_empty_before_stays() {
        for text in [
            "[sandbox_workspace_write]\nwritable_roots = []\n",
            "[sandbox_workspace_write] # c\n[z]\n",
        ] {
            let installed = with(text, &entry()).unwrap();
            assert_eq!(without(&installed, &entry(), Some(text)).unwrap(), text);
        }
    }

    #[test]
    fn other_shapes_are_refused() {
        let refused = |text: &str| with(text, &entry()).unwrap_err().to_string();
        assert!(refused("a = ").contains("line 1, column 5"), "{}", refused("a = "));
        assert!(refused("sandbox_workspace_write = 1").contains("is not a table"));
        let list = "[sandbox_workspace_write]\nwritable_roots = 1";
        assert!(refused(list).contains("`sandbox_workspace_write.writable_roots` is not a list"));
    }
}
