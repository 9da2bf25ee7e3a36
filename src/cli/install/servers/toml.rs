//! MCP servers in TOML.

use toml_edit::{Array, Document, Item, Key, TableLike, Value};

use crate::install::entry::WrongShape;
use crate::install::servers::entry::{
    ByteSpan, CommandPlace, CommandWord, ListPlace, ListRoom, ServerEntry, ServerKind,
};

const COMMAND: &str = "command";
const ARGUMENTS: &str = "args";
const ADDRESS: &str = "url";

pub(crate) fn entries(text: &str, path: &[String]) -> Result<Vec<ServerEntry>, WrongShape> {
    let document = Document::parse(text).map_err(|error| WrongShape::invalid("TOML", &error))?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let mut table: &dyn TableLike = document.as_table();
    for depth in 1..=path.len() {
        let Some(inner) = table.get(path[depth - 1]) else { return Ok(Vec::new()) };
        let inner = inner.as_table_like();
        table = inner.ok_or_else(|| WrongShape::new(&path[..depth], "is not a table"))?;
    }
    let entry = |(name, item): (&str, &Item)| {
        let path: Vec<&str> = path.iter().copied().chain([name]).collect();
        ServerEntry { name: name.to_owned(), kind: kind(text, item, &path) }
    };
    Ok(table.iter().map(entry).collect())
}

pub(crate) fn quoted(word: &str) -> String {
    Value::from(word).to_string().trim().to_owned()
}

pub(crate) fn example(path: &[String], name: &str, words: &[&str]) -> String {
    let keys = path.iter().map(String::as_str).chain([name]);
    let keys: Vec<String> = keys.map(|name| Key::new(name).display_repr().into_owned()).collect();
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let [program, arguments @ ..] = &words[..] else { return String::new() };
    let (keys, arguments) = (keys.join("."), arguments.join(", "));
    format!("[{keys}]\n{COMMAND} = {program}\n{ARGUMENTS} = [{arguments}]\n")
}

fn kind(text: &str, server: &Item, path: &[&str]) -> Result<ServerKind, WrongShape> {
    let of = |name| path.iter().copied().chain([name]).collect::<Vec<_>>();
    let table = server.as_table_like();
    let table = table.ok_or_else(|| WrongShape::new(path, "is not a table"))?;
    if table.contains_key(ADDRESS) {
        return Ok(ServerKind::Remote);
    }
    let Some((key, command)) = table.get_key_value(COMMAND) else {
        return Ok(ServerKind::NoCommand);
    };
    let program = command.as_value().filter(|command| command.is_str()).and_then(word);
    let program = program.ok_or_else(|| WrongShape::new(&of(COMMAND), "is not a text"))?;
    let list = match table.get(ARGUMENTS) {
        None => None,
        Some(arguments) => {
            let list = arguments.as_array().and_then(list);
            Some(list.ok_or_else(|| WrongShape::new(&of(ARGUMENTS), "is not a list"))?)
        }
    };
    let room = room(text, server, key, &program.span);
    let room = room.ok_or_else(|| WrongShape::new(path, "is written in an unknown way"))?;
    Ok(ServerKind::Command(CommandPlace::Apart { program, list, room }))
}

// A new list goes on the next line, or directly after the command in an inline table.
fn room(text: &str, server: &Item, key: &Key, command: &ByteSpan) -> Option<ListRoom> {
    if let Some(table) = server.as_inline_table() {
        let lead = format!(", {ARGUMENTS} = ");
        return (!table.is_dotted()).then_some(ListRoom { at: command.end, lead });
    }
    let start = key.span()?.start;
    let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let rest = text[command.end..].find('\n').map_or(text.len(), |at| command.end + at);
    let at = if text[..rest].ends_with('\r') { rest - 1 } else { rest };
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    Some(ListRoom { at, lead: format!("{newline}{}{ARGUMENTS} = ", &text[line..start]) })
}

fn list(array: &Array) -> Option<ListPlace> {
    let words = array.iter().map(word).collect::<Option<_>>()?;
    Some(ListPlace { span: array.span()?, words })
}

fn word(value: &Value) -> Option<CommandWord> {
    Some(CommandWord { span: value.span()?, text: value.as_str().map(str::to_owned) })
}
