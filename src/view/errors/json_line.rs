use memchr::memmem;

// Fields with a sentence about the event, and fields with the error itself.
const MESSAGES: [&str; 4] = ["message", "msg", "event", "text"];
const ERRORS: [&str; 6] = ["error", "err", "exception", "errorMessage", "error_message", "reason"];
const FILES: [&str; 4] = ["file", "path", "filename", "filePath"];
const ROWS: [&str; 3] = ["line", "row", "lineno"];
const TESTS: [&str; 2] = ["Test", "test"];

/// Returns the message of a line that is an object. Looks fields up by name, so that a line that is
/// cut still has those before the cut.
pub(super) fn message(line: &str) -> Option<String> {
    let line = object(line)?;
    if let Some(printed) = text(line, &["Output"]) {
        return Some(printed.trim().to_owned());
    }
    let message = text(line, &MESSAGES);
    let error = text(line, &ERRORS).filter(|error| message.as_ref() != Some(error));
    let parts: Vec<String> = message.into_iter().chain(error).collect();
    (!parts.is_empty()).then(|| parts.join(": "))
}

/// Returns the test of a line that is an object, or else its file and line number.
pub(super) fn owner(line: &str) -> Option<String> {
    let line = object(line)?;
    let test = text(line, &TESTS);
    let file = || {
        let file = text(line, &FILES)?;
        let row = ROWS.iter().find_map(|name| number(line, name));
        Some(row.map_or_else(|| file.clone(), |row| format!("{file}:{row}")))
    };
    test.or_else(file)
}

fn object(line: &str) -> Option<&str> {
    Some(line.trim()).filter(|line| line.starts_with("{\""))
}

fn text(line: &str, names: &[&str]) -> Option<String> {
    let values = names.iter().filter_map(|name| value(line, name));
    values.filter_map(string).find(|text| !text.trim().is_empty())
}

fn number<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let value = value(line, name)?;
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    Some(&value[..end]).filter(|digits| !digits.is_empty())
}

// Returns the rest of the line from the value of a field on.
fn value<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let key = format!("\"{name}\"");
    let after = |at: usize| line[at + key.len()..].trim_start().strip_prefix(':');
    memmem::find_iter(line.as_bytes(), key.as_bytes()).find_map(after).map(str::trim_start)
}

fn string(value: &str) -> Option<String> {
    let text = value.strip_prefix('"')?;
    let mut escaped = false;
    let end = text.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    serde_json::from_str(&value[..end? + 2]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_says_what_its_fields_say() {
        for (line, says) in [
            (r#"{"level":"error","msg":"no \"disk\"","at":3}"#, Some("no \"disk\"")),
            (
                r#"{"ts": 1, "msg": "archive failed", "error": "ENOENT"}"#,
                Some("archive failed: ENOENT"),
            ),
            (r#"{"message":"x","error":{"code":3}}"#, Some("x")),
            (r#"{"message":"same","err":"same"}"#, Some("same")),
            (r#"{"msg":"x","stack":"cut her"#, Some("x")),
            (
                r#"{"Action":"output","Test":"TestA","Output":"    a_test.go:3: no\n"}"#,
                Some("a_test.go:3: no"),
            ),
            (r#"{"uri":"/a","status":500}"#, None),
            (r#"{"msg":""}"#, None),
            (r#"{"msg":"cut her"#, None),
            ("error: {\"msg\":\"x\"}", None),
        ] {
            assert_eq!(message(line).as_deref(), says, "{line}");
        }
    }

    #[test]
    fn an_object_names_its_file_or_test() {
        for (line, named) in [
            (r#"{"file": "a.py", "line": 32, "message": "x"}"#, Some("a.py:32")),
            (r#"{"path":"a.py","msg":"x"}"#, Some("a.py")),
            (r#"{"Test":"TestA/b","Output":"x\n"}"#, Some("TestA/b")),
            (r#"{"msg":"file","line":3}"#, None),
            ("a.py:32: {x}", None),
        ] {
            assert_eq!(owner(line).as_deref(), named, "{line}");
        }
    }
}
