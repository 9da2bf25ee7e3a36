//! Entries in JSON files, put in and taken out without touching anything else in the file.

mod document;
mod hook_list;

use jsonc_parser::cst::{CstArray, CstInputValue, CstNode};

use crate::install::entry::{HookEntry, JsonEntry, MemberEntry, TextEntry, ValueEntry};
use crate::install::json::document::{Document, text_of};
use crate::install::shape::WrongShape;

/// The object of the variables that a host sets for its commands.
const VARIABLES: &[&str] = &["env"];

/// Returns `text` with all of `entries`, and the same `text` if it has them.
pub(super) fn with(text: &str, entries: &[JsonEntry]) -> Result<String, WrongShape> {
    let document = Document::parse(text)?;
    hook_list::put(&document, &hooks(entries))?;
    for entry in entries {
        match entry {
            JsonEntry::Hook(_) => {}
            JsonEntry::Text(entry) => put_text(&document, entry)?,
            JsonEntry::Member(entry) => put_member(&document, entry)?,
            JsonEntry::Variable(entry) => put_variable(&document, entry)?,
            JsonEntry::Demanded(name, number) => put_demanded(&document, name, *number)?,
        }
    }
    Ok(document.text())
}

/// Returns `text` without `entries`, and without the objects and lists that this leaves empty.
/// Whatever `before` has, the same file before it had any of them, stays.
pub(super) fn without(
    text: &str,
    entries: &[JsonEntry],
    before: Option<&str>,
) -> Result<String, WrongShape> {
    let document = Document::parse(text)?;
    let before = before.and_then(|before| Document::parse(before).ok());
    let before = before.as_ref();
    if let Some(hook) = hooks(entries).first() {
        hook_list::take(&document, hook, before);
    }
    for entry in entries {
        match entry {
            JsonEntry::Hook(_) => {}
            JsonEntry::Text(entry) => take_text(&document, entry, before),
            JsonEntry::Member(entry) => take_member(&document, entry, before),
            JsonEntry::Variable(entry) => take_variable(&document, entry, before),
            JsonEntry::Demanded(name, _) => take_demanded(&document, name, before),
        }
    }
    Ok(document.text())
}

/// Returns the words of the first hook in `text` that is among `entries`, also with another path or
/// at another event.
pub(super) fn hook_words(
    text: &str,
    entries: &[JsonEntry],
) -> Result<Option<Vec<String>>, WrongShape> {
    let document = Document::parse(text)?;
    let hooks = hooks(entries);
    let found = hooks.first().map(|hook| hook_list::found(&document, hook)).unwrap_or_default();
    Ok(found.into_iter().next().map(|found| found.words))
}

/// Returns the text at `path`, if `text` is JSON and has one there.
pub(super) fn value(text: &str, path: &[&str]) -> Option<String> {
    text_of(&Document::parse(text).ok()?.find(path)?)
}

/// Returns true if there is nothing in `text` but an empty object.
pub(super) fn is_nothing(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').split_whitespace().collect::<String>() == "{}"
}

fn hooks(entries: &[JsonEntry]) -> Vec<&HookEntry> {
    let mut hooks = Vec::new();
    for entry in entries {
        if let JsonEntry::Hook(hook) = entry {
            hooks.push(hook);
        }
    }
    hooks
}

fn put_text(document: &Document, entry: &TextEntry) -> Result<(), WrongShape> {
    let list = document.list(entry.path)?;
    if !list.elements().iter().any(|node| text_of(node).as_ref() == Some(&entry.text)) {
        list.append(entry.text.as_str().into());
    }
    Ok(())
}

fn take_text(document: &Document, entry: &TextEntry, before: Option<&Document>) {
    if before.is_some_and(|before| has_text(before, entry)) {
        return;
    }
    let list = document.find(entry.path).and_then(|node| node.as_array());
    let elements = list.iter().flat_map(CstArray::elements);
    let ours = elements.filter(|node| text_of(node).as_ref() == Some(&entry.text)).last();
    if let Some(ours) = ours {
        ours.remove();
        document.clear(entry.path, before);
    }
}

fn has_text(document: &Document, entry: &TextEntry) -> bool {
    let list = document.find(entry.path).and_then(|node| node.as_array());
    let is_it = |node: &CstNode| text_of(node).as_ref() == Some(&entry.text);
    list.is_some_and(|list| list.elements().iter().any(is_it))
}

/// A text in the place of the object stands for all of its members.
fn put_member(document: &Document, entry: &MemberEntry) -> Result<(), WrongShape> {
    let is_general = |end: usize| {
        let text = document.find(&entry.path[..end]).and_then(|node| text_of(&node));
        text.as_deref() == Some(entry.value)
    };
    if (1..=entry.path.len()).any(is_general) {
        return Ok(());
    }
    let object = document.object(entry.path)?;
    match object.get(&entry.name).and_then(|member| member.value()) {
        None => drop(object.append(&entry.name, entry.value.into())),
        Some(value) if text_of(&value).as_deref() == Some(entry.value) => {}
        Some(_) => {
            let path: Vec<&str> = entry.path.iter().copied().chain([&*entry.name]).collect();
            return Err(WrongShape::new(&path, &format!("is not `{}`", entry.value)));
        }
    }
    Ok(())
}

fn take_member(document: &Document, entry: &MemberEntry, before: Option<&Document>) {
    let member = |document: &Document| {
        let object = document.find(entry.path).and_then(|node| node.as_object());
        object.and_then(|object| object.get(&entry.name))
    };
    if before.is_some_and(|before| member(before).is_some()) {
        return;
    }
    let ours = member(document).filter(|ours| {
        ours.value().and_then(|value| text_of(&value)).as_deref() == Some(entry.value)
    });
    if let Some(ours) = ours {
        ours.remove();
        document.clear(entry.path, before);
    }
}

fn put_variable(document: &Document, entry: &ValueEntry) -> Result<(), WrongShape> {
    let variables = document.object(VARIABLES)?;
    match variables.get(entry.name) {
        None => drop(variables.append(entry.name, entry.value.as_str().into())),
        Some(member) => {
            let now = member.value().and_then(|value| text_of(&value));
            let path = [VARIABLES, &[entry.name]].concat();
            let now = now.ok_or_else(|| WrongShape::new(&path, "is not a text"))?;
            if now != entry.value {
                member.set_value(entry.value.as_str().into());
            }
        }
    }
    Ok(())
}

/// Puts back what the variable was before.
fn take_variable(document: &Document, entry: &ValueEntry, before: Option<&Document>) {
    let path = [VARIABLES, &[entry.name]].concat();
    let value = |document: &Document| text_of(&document.find(&path)?);
    let variables = document.find(VARIABLES).and_then(|node| node.as_object());
    let member = variables.and_then(|variables| variables.get(entry.name));
    let Some(member) = member.filter(|_| value(document).is_some_and(|now| (entry.is_ours)(&now)))
    else {
        return;
    };
    if let Some(former) = before.and_then(value).or_else(|| entry.former.clone()) {
        member.set_value(former.as_str().into());
    } else {
        member.remove();
        document.clear(VARIABLES, before);
    }
}

fn put_demanded(document: &Document, name: &str, number: u32) -> Result<(), WrongShape> {
    let top = document.object(&[])?;
    if top.get(name).is_none() {
        top.insert(0, name, CstInputValue::Number(number.to_string()));
    }
    Ok(())
}

fn take_demanded(document: &Document, name: &str, before: Option<&Document>) {
    let Some(top) = document.find(&[]).and_then(|node| node.as_object()) else { return };
    let is_kept = before.is_some_and(|before| before.find(&[name]).is_some());
    if let ([only], false) = (&top.properties()[..], is_kept)
        && only.decoded_name().as_deref() == Some(name)
    {
        only.clone().remove();
    }
}

#[cfg(test)]
mod tests;
