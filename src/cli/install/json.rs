//! Adds and removes entries in JSON files without changing any other byte. Comments, order and
//! indentation are preserved.

use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode, CstStringLit};

use crate::install::entry::{
    self, HookDialect, HookEntry, JsonEntry, MemberEntry, TextEntry, ValueEntry, WrongShape,
};

const VARIABLES: &[&str] = &["env"];

/// Returns `text` with all `entries`. Returns `text` unchanged if it already has the entries.
pub(crate) fn with(text: &str, entries: &[JsonEntry]) -> Result<String, WrongShape> {
    let document = JsonDocument::parse(text)?;
    put_hooks(&document, &hooks(entries))?;
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

/// Returns `text` without `entries`, and without objects and lists that become empty. `before` is
/// the text of the file from before the installation. Everything that `before` contains is kept.
pub(crate) fn without(
    text: &str,
    entries: &[JsonEntry],
    before: Option<&str>,
) -> Result<String, WrongShape> {
    let document = JsonDocument::parse(text)?;
    let before = before.and_then(|before| JsonDocument::parse(before).ok());
    let before = before.as_ref();
    if let Some(hook) = hooks(entries).first() {
        remove_hooks(&document, found_hooks(&document, hook), before);
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

/// Returns the command line, as a list of words, of the first hook in `text` that calls ctxfs for
/// the host of `entries`. The path of the program and the event of the hook do not matter.
pub(crate) fn hook_words(
    text: &str,
    entries: &[JsonEntry],
) -> Result<Option<Vec<String>>, WrongShape> {
    let document = JsonDocument::parse(text)?;
    let hooks = hooks(entries);
    let found = hooks.first().map(|hook| found_hooks(&document, hook)).unwrap_or_default();
    Ok(found.into_iter().next().map(|found| found.words))
}

pub(crate) fn value(text: &str, path: &[&str]) -> Option<String> {
    text_of(&JsonDocument::parse(text).ok()?.find(path)?)
}

pub(crate) fn is_nothing(text: &str) -> bool {
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

fn put_text(document: &JsonDocument, entry: &TextEntry) -> Result<(), WrongShape> {
    let list = document.list(entry.path)?;
    if !list.elements().iter().any(|node| text_of(node).as_ref() == Some(&entry.text)) {
        list.append(entry.text.as_str().into());
    }
    Ok(())
}

fn take_text(document: &JsonDocument, entry: &TextEntry, before: Option<&JsonDocument>) {
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

fn has_text(document: &JsonDocument, entry: &TextEntry) -> bool {
    let list = document.find(entry.path).and_then(|node| node.as_array());
    let is_it = |node: &CstNode| text_of(node).as_ref() == Some(&entry.text);
    list.is_some_and(|list| list.elements().iter().any(is_it))
}

// A string in place of an object on the path applies to all its members, so nothing is added if
// this string is the value, or if the entry is optional.
fn put_member(document: &JsonDocument, entry: &MemberEntry) -> Result<(), WrongShape> {
    let is_general = |end: usize| {
        let text = document.find(&entry.path[..end]).and_then(|node| text_of(&node));
        text.is_some_and(|text| entry.is_optional || text == entry.value)
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

fn take_member(document: &JsonDocument, entry: &MemberEntry, before: Option<&JsonDocument>) {
    let member = |document: &JsonDocument| {
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

fn put_variable(document: &JsonDocument, entry: &ValueEntry) -> Result<(), WrongShape> {
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

fn take_variable(document: &JsonDocument, entry: &ValueEntry, before: Option<&JsonDocument>) {
    let path = [VARIABLES, &[entry.name]].concat();
    let value = |document: &JsonDocument| text_of(&document.find(&path)?);
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

fn put_demanded(document: &JsonDocument, name: &str, number: u32) -> Result<(), WrongShape> {
    let top = document.object(&[])?;
    if top.get(name).is_none() {
        top.insert(0, name, CstInputValue::Number(number.to_string()));
    }
    Ok(())
}

fn take_demanded(document: &JsonDocument, name: &str, before: Option<&JsonDocument>) {
    let Some(top) = document.find(&[]).and_then(|node| node.as_object()) else { return };
    let is_kept = before.is_some_and(|before| before.find(&[name]).is_some());
    if let ([only], false) = (&top.properties()[..], is_kept)
        && only.decoded_name().as_deref() == Some(name)
    {
        only.clone().remove();
    }
}

// Byte order mark, which editors may write.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A JSON file as a tree that preserves every byte, including comments, trailing commas and
/// whitespace.
#[derive(Debug)]
pub(crate) struct JsonDocument {
    mark: &'static str,
    root: CstRootNode,
}

impl JsonDocument {
    pub(crate) fn parse(text: &str) -> Result<Self, WrongShape> {
        let (mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) => (BYTE_ORDER_MARK, rest),
            None => ("", text),
        };
        let root = CstRootNode::parse(text, &ctxfs_mcp::config::AS_CLIENTS_HAVE_IT);
        Ok(Self { mark, root: root.map_err(|error| WrongShape::invalid("JSON", &error))? })
    }

    pub(crate) fn text(&self) -> String {
        format!("{}{}", self.mark, self.root)
    }

    pub(crate) fn find(&self, path: &[&str]) -> Option<CstNode> {
        let step = |node: CstNode, name: &&str| node.as_object()?.get(name)?.value();
        path.iter().try_fold(self.root.value()?, step)
    }

    pub(crate) fn object(&self, path: &[&str]) -> Result<CstObject, WrongShape> {
        let top = self.root.object_value_or_create();
        let mut object = top.ok_or_else(|| WrongShape::new(&[], "it is not an object"))?;
        for (depth, name) in path.iter().enumerate() {
            let path = &path[..=depth];
            is_single(&object, path)?;
            let inner = object.object_value_or_create(name);
            object = inner.ok_or_else(|| WrongShape::new(path, "is not an object"))?;
        }
        Ok(object)
    }

    pub(crate) fn list(&self, path: &[&str]) -> Result<CstArray, WrongShape> {
        let (name, parents) = path.split_last().expect("a list has a name");
        let object = self.object(parents)?;
        is_single(&object, path)?;
        object.array_value_or_create(name).ok_or_else(|| WrongShape::new(path, "is not a list"))
    }

    pub(crate) fn clear(&self, path: &[&str], before: Option<&Self>) {
        for end in (1..=path.len()).rev() {
            let path = &path[..end];
            let is_kept = before.is_some_and(|before| before.find(path).is_some());
            if is_kept || !self.find(path).is_some_and(|node| is_empty(&node)) {
                return;
            }
            let parent = self.find(&path[..end - 1]).and_then(|node| node.as_object());
            if let Some(member) = parent.and_then(|parent| parent.get(path[end - 1])) {
                member.remove();
            }
        }
    }
}

pub(crate) fn text_of(node: &CstNode) -> Option<String> {
    node.as_string_lit()?.decoded_value().ok()
}

// Fails if a name occurs twice, because JSON parsers disagree on which of the two members counts.
fn is_single(object: &CstObject, path: &[&str]) -> Result<(), WrongShape> {
    let name = path.last().copied();
    let is_it =
        |member: &&jsonc_parser::cst::CstObjectProp| member.decoded_name().as_deref() == name;
    let count = object.properties().iter().filter(is_it).count();
    if count > 1 { Err(WrongShape::new(path, "is there more than once")) } else { Ok(()) }
}

// Returns false for a node with comments, because comments count as content.
fn is_empty(node: &CstNode) -> bool {
    let is_bracket = |child: &CstNode| matches!(child.token_char(), Some('{' | '}' | '[' | ']'));
    let is_space = |child: &CstNode| child.is_whitespace() || child.is_newline();
    (node.as_object().is_some() || node.as_array().is_some())
        && node.children().iter().all(|child| is_bracket(child) || is_space(child))
}

const HOOKS: &str = "hooks";
const MATCHER: &str = "matcher";
const ARGUMENTS: &str = "args";

struct FoundHook {
    event: String,
    matcher: Option<String>,
    // The group that contains the call. In lists without groups, the call itself.
    element: CstNode,
    call: CstObject,
    words: Vec<String>,
    line: Option<CstStringLit>,
}

// If only the command line has changed, replaces it in place, because a host may keep other state
// about an entry.
fn put_hooks(document: &JsonDocument, hooks: &[&HookEntry]) -> Result<(), WrongShape> {
    let Some(first) = hooks.first() else { return Ok(()) };
    for hook in hooks {
        check_event_list(document, hook)?;
    }
    let found = found_hooks(document, first);
    if !is_same(&found, hooks) {
        remove_hooks(document, found, None);
        for hook in hooks {
            document.list(&[HOOKS, hook.event])?.append(hook_element(hook));
        }
        return Ok(());
    }
    let lines = found.iter().filter_map(|found| found.line.as_ref());
    for line in lines.filter(|line| line.decoded_value().ok().as_ref() != Some(&first.command)) {
        line.set_raw_value(serde_json::Value::from(&*first.command).to_string());
    }
    Ok(())
}

// Ignores elements of another structure, because ctxfs did not write them.
fn found_hooks(document: &JsonDocument, hook: &HookEntry) -> Vec<FoundHook> {
    let events = document.find(&[HOOKS]).and_then(|node| node.as_object());
    let members = events.iter().flat_map(CstObject::properties);
    let lists = members.filter_map(|member| Some((member.decoded_name()?, member.array_value()?)));
    lists.flat_map(|(event, list)| found_in_event(&event, &list, hook)).collect()
}

fn found_in_event(event: &str, list: &CstArray, hook: &HookEntry) -> Vec<FoundHook> {
    let mut found = Vec::new();
    for element in list.elements() {
        let Some(object) = element.as_object() else { continue };
        for call in calls_in(&object, hook.dialect) {
            let words = hook_words_of(&call, hook);
            if !entry::is_hook(&words, hook.host) {
                continue;
            }
            let matcher = object.get(MATCHER).and_then(|matcher| text_of(&matcher.value()?));
            let line = call.get(hook.dialect.command).and_then(|line| line.value());
            let line = line.filter(|_| call.get(ARGUMENTS).is_none());
            let line = line.and_then(|line| line.as_string_lit());
            let (event, element) = (event.to_owned(), element.clone());
            found.push(FoundHook { event, matcher, element, call, words, line });
        }
    }
    found
}

fn calls_in(element: &CstObject, dialect: &HookDialect) -> Vec<CstObject> {
    if !dialect.grouped {
        return vec![element.clone()];
    }
    let calls = element.array_value(HOOKS).map(|list| list.elements()).unwrap_or_default();
    calls.iter().filter_map(CstNode::as_object).collect()
}

fn hook_words_of(call: &CstObject, hook: &HookEntry) -> Vec<String> {
    let line = call.get(hook.dialect.command).and_then(|line| text_of(&line.value()?));
    let line = line.unwrap_or_default();
    // If the call has its arguments in a separate list, its command is only the program.
    match call.array_value(ARGUMENTS) {
        Some(arguments) => {
            [line].into_iter().chain(arguments.elements().iter().filter_map(text_of)).collect()
        }
        None => entry::split_words(&line),
    }
}

fn is_same(found: &[FoundHook], hooks: &[&HookEntry]) -> bool {
    let is_it = |found: &&FoundHook, hook: &HookEntry| {
        found.event == hook.event
            && found.matcher.as_deref() == hook.matcher
            && found.line.is_some()
    };
    let is_there = |hook: &&HookEntry| found.iter().filter(|found| is_it(found, hook)).count() == 1;
    found.len() == hooks.len() && hooks.iter().all(is_there)
}

fn check_event_list(document: &JsonDocument, hook: &HookEntry) -> Result<(), WrongShape> {
    let path = [HOOKS, hook.event];
    let list = document.list(&path)?;
    for (at, element) in list.elements().iter().enumerate() {
        let at = at.to_string();
        let wrong = |what| WrongShape::new(&[HOOKS, hook.event, &at], what);
        let element = element.as_object().ok_or_else(|| wrong("is not an object"))?;
        if hook.dialect.grouped {
            let calls = element.array_value(HOOKS).ok_or_else(|| wrong("has no list `hooks`"))?;
            if !calls.elements().iter().all(|call| call.as_object().is_some()) {
                return Err(wrong("has something else than objects in its list `hooks`"));
            }
        }
    }
    Ok(())
}

fn remove_hooks(document: &JsonDocument, found: Vec<FoundHook>, before: Option<&JsonDocument>) {
    for FoundHook { event, element, call, .. } in found {
        let group = element.as_object().and_then(|group| group.array_value(HOOKS));
        match group {
            Some(group) if group.elements().len() > 1 => call.remove(),
            _ => element.remove(),
        }
        document.clear(&[HOOKS, &event], before);
    }
}

fn hook_element(hook: &HookEntry) -> CstInputValue {
    let HookEntry { matcher, command, dialect, .. } = hook;
    let pair = |name: &str, value: &str| (name.to_owned(), value.into());
    let timeout = CstInputValue::Number(dialect.minute.to_string());
    let call = vec![
        pair("type", "command"),
        pair(dialect.command, command),
        (dialect.timeout.to_owned(), timeout),
    ];
    let calls = if dialect.grouped {
        let call = CstInputValue::Object(call);
        vec![(HOOKS.to_owned(), CstInputValue::Array(vec![call]))]
    } else {
        call
    };
    let matcher = matcher.map(|matcher| pair(MATCHER, matcher));
    CstInputValue::Object(matcher.into_iter().chain(calls).collect())
}

#[cfg(test)]
mod tests;
