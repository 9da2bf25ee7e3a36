//! MCP servers in JSON.

use jsonc_parser::ast::{Array, Object, ObjectProp, Value};
use jsonc_parser::{CollectOptions, common::Ranged as _, parse_to_ast};
use serde_json::json;

use crate::install::entry::WrongShape;
use crate::install::servers::entry::{
    CommandPlace, CommandWord, ListPlace, ListRoom, ServerEntry, ServerKind, ServersForm,
    gap_before,
};
use ctxfs_mcp::config::AS_CLIENTS_HAVE_IT;

const COMMAND: &str = "command";
const ARGUMENTS: &str = "args";
const TYPE: &str = "type";
const STARTED: [&str; 2] = ["stdio", "local"];
const ADDRESSES: [&str; 3] = ["url", "httpUrl", "serverUrl"];

pub(crate) fn entries(
    text: &str,
    path: &[String],
    form: ServersForm,
) -> Result<Vec<ServerEntry>, WrongShape> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &AS_CLIENTS_HAVE_IT);
    let parsed = parsed.map_err(|error| WrongShape::invalid("JSON", &error))?;
    let Some(top) = &parsed.value else { return Ok(Vec::new()) };
    let Some(servers) = object_at(top, path)? else { return Ok(Vec::new()) };
    let entry = |server: &ObjectProp<'_>| {
        let name = server.name.as_str();
        let path: Vec<&str> = path.iter().map(String::as_str).chain([name]).collect();
        let kind = member(servers, &path).and_then(|_| kind(text, &server.value, &path, form));
        ServerEntry { name: name.to_owned(), kind }
    };
    Ok(servers.properties.iter().map(entry).collect())
}

pub(crate) fn quoted(word: &str) -> String {
    serde_json::Value::from(word).to_string()
}

pub(crate) fn example(path: &[String], name: &str, words: &[&str], form: ServersForm) -> String {
    let server = match (form, words) {
        (ServersForm::JsonList, words) => json!({ "type": "local", COMMAND: words }),
        (_, [program, arguments @ ..]) => json!({ COMMAND: program, ARGUMENTS: arguments }),
        (_, []) => json!({}),
    };
    let around = |inner, name: &str| json!({ name: inner });
    let names = path.iter().map(String::as_str).chain([name]);
    format!("{:#}", names.rev().fold(server, around))
}

fn object_at<'a, 'b>(
    top: &'a Value<'b>,
    path: &[String],
) -> Result<Option<&'a Object<'b>>, WrongShape> {
    let mut object = top.as_object().ok_or_else(|| WrongShape::new(&[], "it is not an object"))?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    for depth in 1..=path.len() {
        let Some(inner) = member(object, &path[..depth])? else { return Ok(None) };
        let inner = inner.value.as_object();
        object = inner.ok_or_else(|| WrongShape::new(&path[..depth], "is not an object"))?;
    }
    Ok(Some(object))
}

// Fails if a name occurs twice, because JSON parsers disagree on which of the two members counts.
fn member<'a, 'b>(
    object: &'a Object<'b>,
    path: &[&str],
) -> Result<Option<&'a ObjectProp<'b>>, WrongShape> {
    let name = path.last().copied().unwrap_or_default();
    let mut found = object.properties.iter().filter(|member| member.name.as_str() == name);
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(WrongShape::new(path, "is there more than once")),
        (found, None) => Ok(found),
    }
}

fn kind(
    text: &str,
    server: &Value<'_>,
    path: &[&str],
    form: ServersForm,
) -> Result<ServerKind, WrongShape> {
    let server = server.as_object().ok_or_else(|| WrongShape::new(path, "is not an object"))?;
    let of = |name: &'static str| {
        let path: Vec<&str> = path.iter().copied().chain([name]).collect();
        member(server, &path).map(|member| member.map(|member| (member, path)))
    };
    let kind = of(TYPE)?.and_then(|(member, _)| member.value.as_string_lit());
    let is_remote = match kind {
        Some(kind) => !STARTED.contains(&&*kind.value),
        None => ADDRESSES.iter().any(|name| server.get(name).is_some()),
    };
    if is_remote {
        return Ok(ServerKind::Remote);
    }
    let Some((command, path)) = of(COMMAND)? else { return Ok(ServerKind::NoCommand) };
    if form == ServersForm::JsonList {
        let list = command.value.as_array().map(list);
        let list = list.ok_or_else(|| WrongShape::new(&path, "is not a list"))?;
        let has_program = list.words.first().is_some_and(|word| word.text.is_some());
        let place = has_program.then_some(CommandPlace::Together(list));
        let place = place.ok_or_else(|| WrongShape::new(&path, "does not begin with a text"))?;
        return Ok(ServerKind::Command(place));
    }
    let program = command.value.as_string_lit().is_some().then(|| word(&command.value));
    let program = program.ok_or_else(|| WrongShape::new(&path, "is not a text"))?;
    let list = match of(ARGUMENTS)? {
        None => None,
        Some((member, path)) => {
            let list = member.value.as_array().map(list);
            Some(list.ok_or_else(|| WrongShape::new(&path, "is not a list"))?)
        }
    };
    let room = room(text, command);
    Ok(ServerKind::Command(CommandPlace::Apart { program, list, room }))
}

// A new list gets its own line if the command has one.
fn room(text: &str, command: &ObjectProp<'_>) -> ListRoom {
    let gap = gap_before(&text[..command.range.start]);
    ListRoom { at: command.value.end(), lead: format!(",{gap}\"{ARGUMENTS}\": ") }
}

fn list(array: &Array<'_>) -> ListPlace {
    let span = array.range.start..array.range.end;
    ListPlace { span, words: array.elements.iter().map(word).collect() }
}

fn word(value: &Value<'_>) -> CommandWord {
    let text = value.as_string_lit().map(|text| text.value.clone().into_owned());
    CommandWord { span: value.start()..value.end(), text }
}
