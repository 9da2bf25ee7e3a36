//! The servers behind the gateway, from a file with an `mcpServers` object as clients have it.
//!
//! A server that is wrong is left out and named; the others are kept. Values of `env` and `headers`
//! and what variables hold are secrets: no error and no `Debug` shows them.

mod expand;
mod flaw;
mod reader;
mod secret;
mod server;
mod tool_filter;

use std::time::Duration;

use jsonc_parser::{CollectOptions, ParseOptions, ast, parse_to_ast};

use reader::Reader;

pub use flaw::{Flaw, Severity};
pub use secret::Secret;
pub use tool_filter::ToolFilter;

/// The object of all servers.
const SERVERS: &str = "mcpServers";
/// The timeout of a call whose server has none.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);

/// JSON with comments and trailing commas, which clients read in their settings.
pub const AS_CLIENTS_HAVE_IT: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The content of a file.
#[derive(Debug, Default)]
pub struct Servers {
    /// The servers that can be started, in the order of the file.
    pub servers: Vec<Server>,
    /// The faults and unknown keys, in the order of the file.
    pub flaws: Vec<Flaw>,
}

/// A server behind the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name, which holds no `/`.
    pub name: String,
    /// The way to reach it.
    pub transport: Transport,
    /// True if it is believed about its tools.
    pub trust: bool,
    /// The time that a call may take without progress.
    pub timeout: Duration,
    /// Which of its tools are offered.
    pub tools: ToolFilter,
    /// What stands before its tools' names instead of its own; empty for nothing.
    pub prefix: Option<String>,
    /// True if all sessions share it.
    pub shared: bool,
}

/// The way to reach a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A process that is started.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<Secret>,
        /// Variables of its environment.
        env: Vec<(String, Secret)>,
        /// Its working directory.
        cwd: Option<String>,
    },
    /// Streamable HTTP.
    Http {
        /// The address, which begins with `http://` or `https://`.
        url: Secret,
        /// Headers of each request.
        headers: Vec<(String, Secret)>,
    },
}

impl Server {
    /// Returns a server with a name and transport, as one behind `--` is.
    pub fn new(name: String, transport: Transport) -> Self {
        let (trust, shared, timeout) = (false, false, DEFAULT_TIMEOUT);
        Self { name, transport, trust, timeout, tools: ToolFilter::default(), prefix: None, shared }
    }

    /// Returns what stands before its tools' names.
    pub fn prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or(&self.name)
    }
}

impl Servers {
    /// Reads `text`, the content of the file that messages call `file`. `variable` looks up a
    /// variable of the environment.
    pub fn parse(file: &str, text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut reader = Reader::new(file, text, variable);
        let servers = read(&mut reader, text);
        Self { servers, flaws: reader.into_flaws() }
    }
}

fn read(reader: &mut Reader<'_>, text: &str) -> Vec<Server> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let parsed = match parse_to_ast(text, &CollectOptions::default(), &AS_CLIENTS_HAVE_IT) {
        Ok(parsed) => parsed,
        Err(error) => {
            reader.error(error.range().start, &[], &format!("is not JSON: {}", error.kind()));
            return Vec::new();
        }
    };
    let root = parsed.value.as_ref().and_then(ast::Value::as_object);
    let all = root.and_then(|root| root.properties.iter().find(|p| p.name.as_str() == SERVERS));
    match all.map(|property| (&property.value, property.range.start)) {
        Some((ast::Value::Object(all), _)) => read_all(reader, all),
        Some((_, at)) => {
            reader.error(at, &[SERVERS], "must be an object");
            Vec::new()
        }
        None => {
            reader.error(
                0,
                &[SERVERS],
                "is missing: the file must be {\"mcpServers\": {NAME: {...}}}",
            );
            Vec::new()
        }
    }
}

fn read_all(reader: &mut Reader<'_>, all: &ast::Object<'_>) -> Vec<Server> {
    let mut servers: Vec<Server> = Vec::new();
    for property in &all.properties {
        let name = property.name.as_str();
        if servers.iter().any(|server| server.name == name) {
            reader.error(
                property.range.start,
                &[SERVERS, name],
                "is there twice: this one is not used",
            );
            continue;
        }
        servers.extend(server::read(reader, name, property));
    }
    servers
}

#[cfg(test)]
mod tests;
