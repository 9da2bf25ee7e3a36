//! The calls of the hook below `hooks`, where each event has a list.

use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstStringLit};

use crate::install::command_line;
use crate::install::entry::{HookDialect, HookEntry};
use crate::install::json::document::{Document, text_of};
use crate::install::shape::WrongShape;

const HOOKS: &str = "hooks";
const MATCHER: &str = "matcher";
const ARGUMENTS: &str = "args";

/// A call of the hook in a file.
pub(super) struct FoundHook {
    event: String,
    matcher: Option<String>,
    /// The group that it is in, or the call itself where there are no groups.
    element: CstNode,
    call: CstObject,
    /// The words of the command.
    pub(super) words: Vec<String>,
    /// The command line, if it is one for the shell.
    line: Option<CstStringLit>,
}

/// Puts `hooks` in. Where the same calls are there with another command line, replaces that alone,
/// in place: a host may have other state about an entry.
pub(super) fn put(document: &Document, hooks: &[&HookEntry]) -> Result<(), WrongShape> {
    let Some(first) = hooks.first() else { return Ok(()) };
    for hook in hooks {
        check(document, hook)?;
    }
    let found = found(document, first);
    if !is_same(&found, hooks) {
        take_all(document, found, None);
        for hook in hooks {
            document.list(&[HOOKS, hook.event])?.append(element(hook));
        }
        return Ok(());
    }
    let lines = found.iter().filter_map(|found| found.line.as_ref());
    for line in lines.filter(|line| line.decoded_value().ok().as_ref() != Some(&first.command)) {
        line.set_raw_value(serde_json::Value::from(&*first.command).to_string());
    }
    Ok(())
}

/// Takes out all calls of the hook of this host, at any event.
pub(super) fn take(document: &Document, hook: &HookEntry, before: Option<&Document>) {
    take_all(document, found(document, hook), before);
}

/// Returns the calls of the hook of this host. What has another shape is somebody else's.
pub(super) fn found(document: &Document, hook: &HookEntry) -> Vec<FoundHook> {
    let events = document.find(&[HOOKS]).and_then(|node| node.as_object());
    let members = events.iter().flat_map(CstObject::properties);
    let lists = members.filter_map(|member| Some((member.decoded_name()?, member.array_value()?)));
    lists.flat_map(|(event, list)| found_in(&event, &list, hook)).collect()
}

fn found_in(event: &str, list: &CstArray, hook: &HookEntry) -> Vec<FoundHook> {
    let mut found = Vec::new();
    for element in list.elements() {
        let Some(object) = element.as_object() else { continue };
        for call in calls(&object, hook.dialect) {
            let words = words(&call, hook);
            if !command_line::is_hook(&words, hook.host) {
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

/// Returns the calls in an element of the list of an event.
fn calls(element: &CstObject, dialect: &HookDialect) -> Vec<CstObject> {
    if !dialect.grouped {
        return vec![element.clone()];
    }
    let calls = element.array_value(HOOKS).map(|list| list.elements()).unwrap_or_default();
    calls.iter().filter_map(CstNode::as_object).collect()
}

fn words(call: &CstObject, hook: &HookEntry) -> Vec<String> {
    let line = call.get(hook.dialect.command).and_then(|line| text_of(&line.value()?));
    let line = line.unwrap_or_default();
    // With arguments of their own, the line is the program alone.
    match call.array_value(ARGUMENTS) {
        Some(arguments) => {
            [line].into_iter().chain(arguments.elements().iter().filter_map(text_of)).collect()
        }
        None => command_line::words(&line),
    }
}

/// Returns true if the calls that were found are these, apart from the command line.
fn is_same(found: &[FoundHook], hooks: &[&HookEntry]) -> bool {
    let is_it = |found: &&FoundHook, hook: &HookEntry| {
        found.event == hook.event
            && found.matcher.as_deref() == hook.matcher
            && found.line.is_some()
    };
    let is_there = |hook: &&HookEntry| found.iter().filter(|found| is_it(found, hook)).count() == 1;
    found.len() == hooks.len() && hooks.iter().all(is_there)
}

/// Fails if the list of the event is not as the host has it.
fn check(document: &Document, hook: &HookEntry) -> Result<(), WrongShape> {
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

fn take_all(document: &Document, found: Vec<FoundHook>, before: Option<&Document>) {
    for FoundHook { event, element, call, .. } in found {
        let group = element.as_object().and_then(|group| group.array_value(HOOKS));
        match group {
            Some(group) if group.elements().len() > 1 => call.remove(),
            _ => element.remove(),
        }
        document.clear(&[HOOKS, &event], before);
    }
}

fn element(hook: &HookEntry) -> CstInputValue {
    let HookEntry { matcher, command, dialect, .. } = hook;
    let pair = |name: &str, value: &str| (name.to_owned(), value.into());
    let timeout = CstInputValue::Number(dialect.minute.to_string());
    let call = CstInputValue::Object(vec![
        pair("type", "command"),
        pair(dialect.command, command),
        (dialect.timeout.to_owned(), timeout),
    ]);
    if !dialect.grouped {
        return call;
    }
    let matcher = matcher.map(|matcher| pair(MATCHER, matcher));
    let calls = (HOOKS.to_owned(), CstInputValue::Array(vec![call]));
    CstInputValue::Object(matcher.into_iter().chain([calls]).collect())
}
