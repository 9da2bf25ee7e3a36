//! The execution of a filter, in a separate process.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::io::{BufRead, Write};

use jaq_core::compile::Undefined;
use jaq_core::data::HasLut;
use jaq_core::load::parse::Def;
use jaq_core::load::{Arena, Loader};
use jaq_core::{Compiler, Ctx, DataT, Exn, Lut, Vars, compile, load, native};
use jaq_json::write::Pp;
use jaq_json::{Val, read};
use jaq_std::input::{HasInputs, Inputs, RcIter};

use crate::clean;
use crate::jq::loose;
use crate::jq::protocol;
use crate::jq::protocol::{FilterInput, FilterRequest, Tag};
use crate::jq::update;
use crate::jq::update::{definition, rewritten};

// Named filters that are not available, because the result must depend only on the artifact.
const MISSING_FILTERS: [&str; 2] = ["env", "now"];
// The name of the definition that has the program.
const MAIN: &str = "_main";
// Maximum size in bytes of the part of a result that is sent at once.
const PART_BYTES: usize = 64 << 10;
// Maximum length in characters of an error, which may quote a value.
const ERROR_CHARS: usize = 300;
// Maximum number of characters of the filter that an error quotes.
const QUOTED_CHARS: usize = 40;

/// Reads a request and values from `input`, and writes answers to `out`. Returns when either stream
/// ends.
///
/// Call this only in a process that has limits and nothing to lose.
pub fn run_filter(input: &mut dyn BufRead, out: &mut dyn Write) -> io::Result<()> {
    let request = FilterRequest::read(input)?;
    let out = AnswerWriter::new(out);
    let mut answers = FilterRun { out: &out, request: &request, text: Vec::new() };
    let filters: Vec<OnceCell<CompiledFilter>> =
        request.programs.iter().map(|_| OnceCell::new()).collect();
    if let Err(why) = compiled(&filters, &request, 0) {
        return answers.send(Tag::NoFilter, why.as_bytes());
    }
    let depth = Cell::new(0);
    let line = Cell::new(0);
    let next = || match next_value(input, &out) {
        Ok(None) => None,
        Ok(Some(value)) => {
            depth.set(value.depth);
            line.set(value.line);
            let text = loose::plain(&value.text);
            Some(read::parse_single(&text).map_err(|error| error.to_string()))
        }
        Err(error) => Some(Err(error.to_string())),
    };
    let inputs = RcIter::new(std::iter::from_fn(next));
    let inputs: Inputs<'_, Val> = &inputs;
    if request.null_input || request.slurp {
        let input = if request.slurp { inputs.collect() } else { Ok(Val::Null) };
        return answers.run(compiled(&filters, &request, 0), input, inputs).map(drop);
    }
    for input in inputs {
        answers.send(Tag::Begin, line.get().to_string().as_bytes())?;
        if !answers.run(compiled(&filters, &request, depth.get()), input, inputs)? {
            break;
        }
    }
    Ok(())
}

struct InputValue {
    depth: usize,
    line: u64,
    text: Vec<u8>,
}

/// Returns the next value. Before that, answers the messages that announce omitted values or the
/// end of valid JSON.
fn next_value(
    input: &mut dyn BufRead,
    out: &RefCell<&mut dyn Write>,
) -> io::Result<Option<InputValue>> {
    loop {
        let (tag, words) = match protocol::read_input(input)? {
            None => return Ok(None),
            Some(FilterInput::Value { depth, line, text }) => {
                return Ok(Some(InputValue { depth, line, text }));
            }
            Some(FilterInput::Large { line }) => (Tag::Large, line.to_string()),
            Some(FilterInput::Bad { line, lines }) => (Tag::Bad, format!("{line} {lines}")),
            Some(FilterInput::Broken { offset, line }) => (Tag::Broken, format!("{offset} {line}")),
        };
        protocol::write_frame(*out.borrow_mut(), tag, words.as_bytes())?;
    }
}

// Returns the argument of `error` as text.
fn reason(error: jaq_json::Error) -> String {
    match error.into_val() {
        Val::TStr(text) => String::from_utf8_lossy(&text).into_owned(),
        value => value.to_string(),
    }
}

// The type of data that filters see besides their input.
struct FilterData;

#[derive(Clone)]
struct FilterGlobals<'a> {
    lut: &'a Lut<FilterData>,
    inputs: Inputs<'a, Val>,
}

impl DataT for FilterData {
    type V<'a> = Val;
    type Data<'a> = FilterGlobals<'a>;
}

impl<'a> HasLut<'a, FilterData> for FilterGlobals<'a> {
    fn lut(&self) -> &'a Lut<FilterData> {
        self.lut
    }
}

impl<'a> HasInputs<'a, Val> for FilterGlobals<'a> {
    fn inputs(&self) -> Inputs<'a, Val> {
        self.inputs
    }
}

type CompiledFilter = jaq_core::Filter<FilterData>;

// Returns the filter that remains after `depth` steps. Compiles it on first use.
fn compiled<'a>(
    filters: &'a [OnceCell<CompiledFilter>],
    request: &FilterRequest,
    depth: usize,
) -> Result<&'a CompiledFilter, String> {
    let (Some(cell), Some(program)) = (filters.get(depth), request.programs.get(depth)) else {
        return Err(format!("there is no step {depth}"));
    };
    if let Some(filter) = cell.get() {
        return Ok(filter);
    }
    let filter = compile(program)?;
    Ok(cell.get_or_init(|| filter))
}

fn compile(program: &str) -> Result<CompiledFilter, String> {
    let prelude = load::parse(include_str!("prelude.jq"), |parser| parser.defs())
        .expect("the prelude parses");
    let own = update::filters::<FilterData>();
    let hidden: Vec<_> = own.iter().map(|fun| fun.0).chain(MISSING_FILTERS).collect();
    let library = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let library = library.filter(|def| !hidden.contains(&def.name));
    let defs = library.chain(prelude.into_iter().map(definition)).map(as_long_as_the_program);
    let funs = jaq_core::funs::<FilterData>()
        .chain(jaq_std::funs::<FilterData>())
        .chain(jaq_json::funs::<FilterData>())
        .filter(|fun| !hidden.contains(&fun.0));
    let inputs = jaq_std::input::funs::<FilterData>().into_vec();
    let funs = funs.chain(inputs.into_iter().map(native::run::<FilterData>)).collect::<Vec<_>>();
    let funs = funs.into_iter().chain(own.into_iter().map(native::run::<FilterData>));
    let arena = Arena::default();
    // The rewritten program is a definition. As it is, it is loaded for the errors in its text.
    Loader::new([])
        .load(&arena, load::File { code: program, path: () })
        .map_err(|errors| of_text(program, &errors))?;
    let term =
        load::parse(program, |parser| parser.term()).ok_or("modules cannot be loaded here")?;
    let main = Def { name: MAIN, args: Vec::new(), body: rewritten(term) };
    let modules = Loader::new(defs.chain([main]))
        .load(&arena, load::File { code: MAIN, path: () })
        .map_err(|errors| of_text(program, &errors))?;
    Compiler::default()
        .with_funs(funs)
        .compile(modules)
        .map_err(|errors| of_names(program, &errors))
}

fn as_long_as_the_program<'s>(def: Def<&'static str>) -> Def<&'s str> {
    def
}

// The writer of answers. Results and messages about the input share it.
type AnswerWriter<'w> = RefCell<&'w mut dyn Write>;

struct FilterRun<'a, 'w> {
    out: &'a AnswerWriter<'w>,
    request: &'a FilterRequest,
    text: Vec<u8>,
}

impl FilterRun<'_, '_> {
    fn send(&self, tag: Tag, text: &[u8]) -> io::Result<()> {
        protocol::write_frame(*self.out.borrow_mut(), tag, text)
    }

    /// Runs `filter` on one input until its end or its first error. Returns false if no other input
    /// may follow.
    fn run<'a>(
        &mut self,
        filter: Result<&'a CompiledFilter, String>,
        input: Result<Val, String>,
        inputs: Inputs<'a, Val>,
    ) -> io::Result<bool> {
        let (filter, input) = match (filter, input) {
            (Ok(filter), Ok(input)) => (filter, input),
            (Err(why), _) | (_, Err(why)) => return self.failed(&why),
        };
        let context =
            Ctx::<FilterData>::new(FilterGlobals { lut: &filter.lut, inputs }, Vars::new([]));
        for result in filter.id.run((context, input)) {
            match result.map_err(Exn::get_err) {
                Ok(value) => self.result(&value)?,
                Err(Ok(error)) => return self.failed(&reason(error)),
                // The filter called `halt`.
                Err(Err(_)) => return Ok(false),
            }
        }
        Ok(true)
    }

    fn failed(&mut self, why: &str) -> io::Result<bool> {
        let why = clean::cleaned(why, ERROR_CHARS);
        self.send(Tag::Failed, why.as_bytes())?;
        Ok(true)
    }

    fn result(&mut self, value: &Val) -> io::Result<()> {
        self.text.clear();
        match value {
            Val::TStr(text) | Val::BStr(text) if self.request.raw => {
                let mut parts = text.split(|byte| *byte == 0);
                self.write_all(parts.next().unwrap_or_default())?;
                for part in parts {
                    // Views never contain NUL bytes.
                    self.write_all("\u{2400}".as_bytes())?;
                    self.write_all(part)?;
                }
            }
            value => {
                let pretty = !self.request.compact;
                let style = Pp {
                    indent: pretty.then(|| "  ".to_owned()),
                    sort_keys: self.request.sorted,
                    sep_space: pretty,
                    ..Pp::default()
                };
                jaq_json::write::write(self, &style, 0, &update::printed(value))?;
            }
        }
        self.text.push(b'\n');
        self.send(Tag::Last, &self.text)
    }
}

// Receives the text of a result. A long text is sent in parts.
impl Write for FilterRun<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(PART_BYTES);
        self.text.extend_from_slice(&bytes[..count]);
        if self.text.len() >= PART_BYTES {
            self.send(Tag::Part, &self.text)?;
            self.text.clear();
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn of_text(program: &str, errors: &load::Errors<&str, ()>) -> String {
    let first = errors.iter().map(|(_, error)| error).next();
    let (expected, found) = match first {
        Some(load::Error::Lex(errors)) => match errors.first() {
            Some((expected, found)) => (expected.as_str(), *found),
            None => ("a filter", ""),
        },
        Some(load::Error::Parse(errors)) => match errors.first() {
            Some((expected, found)) => (expected.as_str(), *found),
            None => ("a filter", ""),
        },
        Some(load::Error::Io(_)) => return "modules cannot be loaded here".to_owned(),
        None => ("a filter", ""),
    };
    format!("expected {expected} {}", place(program, found))
}

fn of_names<'a>(program: &'a str, errors: &compile::Errors<&'a str, ()>) -> String {
    let Some((name, what)) = errors.iter().flat_map(|(_, names)| names).next() else {
        return "something in it is not defined".to_owned();
    };
    let what = match what {
        Undefined::Filter(0) => "filter".to_owned(),
        Undefined::Filter(count) => format!("filter of {count} arguments"),
        other => other.as_str().to_owned(),
    };
    format!("there is no {what} `{name}` {}", place(program, name))
}

/// Describes the position of `found` in the program, and the text at that position: `at character
/// 7, before ...`.
fn place(program: &str, found: &str) -> String {
    let (start, end) = (program.as_ptr() as usize, program.as_ptr() as usize + program.len());
    let at = found.as_ptr() as usize;
    let inside = (start..=end).contains(&at).then(|| at - start);
    let Some((before, after)) = inside.and_then(|at| program.split_at_checked(at)) else {
        return String::new();
    };
    if after.is_empty() {
        return "at its end".to_owned();
    }
    let quoted: String = after.chars().take(QUOTED_CHARS).collect();
    format!("at character {}, before `{quoted}`", before.chars().count() + 1)
}
