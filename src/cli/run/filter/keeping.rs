//! The input of a filter, stored if the filter drops lines of it.

use std::ffi::OsString;
use std::io::Write as _;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser as _;
use rustix::fs::fstat;
use rustix::stdio::stderr;

use crate::args::{Command, ShellArgs};
use crate::hooks::{Host, OutputLength};
use crate::put::{STORE_PATIENCE, TargetConversation};
use crate::run::filter::links::ShellAbove;
use crate::{Cli, Context};
use ctxfs_core::model::Provenance;
use ctxfs_engine::{ListedArtifact, OutputName};
use ctxfs_view::Title;

// Up to this length, an input is stored only after the filter has ended.
const HELD: usize = 1 << 20;
// A longer output of a filter is not compared with the input.
const SHOWN: usize = 256 * 1024;
// An input of fewer characters is not stored.
const LEAST: u64 = 1000;
// Filters that do not fail by themselves.
const NEVER_FAILING: [&str; 3] = ["| tail", "| sed", "| awk"];
// Number of blocks that wait for the store.
const WAITING: usize = 64;

/// Compares the input of a filter with its output, and stores the input, on a thread of its own.
pub(crate) struct InputKeeper {
    words: Vec<OsString>,
    is_tail: bool,
    inode: u64,
    input: Stream,
    /// The bytes that the filter has written.
    pub(crate) shown: Stream,
    storing: Option<Storing>,
    is_refused: bool,
    /// True if bytes that the filter has written were not read by any process.
    pub(crate) has_lost_output: bool,
}

struct Storing {
    blocks: SyncSender<Block>,
    notice: Receiver<Option<String>>,
}

enum Block {
    Input(Vec<u8>),
    /// The end of an input of which `dropped` lines are not shown. `shown` is the output of the
    /// filter if it is compared.
    End {
        shown: Option<Vec<u8>>,
        dropped: u64,
    },
}

impl InputKeeper {
    pub(crate) fn new(shell: ShellAbove, name: &str, arguments: &[OsString]) -> Self {
        let ShellAbove { mut words, inode } = shell;
        words.extend(["--".into(), name.into()]);
        words.extend_from_slice(arguments);
        let (input, shown) = (Stream::new(HELD), Stream::new(SHOWN));
        let is_tail = name == "tail";
        Self {
            words,
            is_tail,
            inode,
            input,
            shown,
            storing: None,
            is_refused: false,
            has_lost_output: false,
        }
    }

    /// Takes bytes that the filter gets.
    pub(crate) fn take_input(&mut self, bytes: &[u8]) {
        let held = self.input.held.len();
        self.input.add(bytes);
        if self.input.is_whole() {
            return;
        }
        if self.storing.is_none() && !self.is_refused {
            self.begin();
            let first = self.input.held[..held].to_vec();
            self.give(Block::Input(first));
        }
        self.give(Block::Input(bytes.to_vec()));
    }

    /// Stores the input of a filter that has ended, and prints the line about dropped errors.
    pub(crate) fn finish(mut self) {
        let dropped = self.input.lines().saturating_sub(self.shown.lines());
        if !self.has_lost_output && dropped > 0 && self.input.length.chars >= LEAST {
            if self.input.is_whole() {
                self.begin();
                let held = std::mem::take(&mut self.input.held);
                self.give(Block::Input(held));
            }
            let is_notice = self.shown.is_whole()
                && fstat(stderr()).is_ok_and(|stat| stat.st_ino == self.inode);
            let shown = is_notice.then(|| self.shown.held.clone());
            self.give(Block::End { shown, dropped });
        }
        let Some(Storing { blocks, notice }) = self.storing else { return };
        drop(blocks);
        if let Ok(Some(notice)) = notice.recv_timeout(STORE_PATIENCE) {
            let is_cut = self.shown.ends_in_line && !self.shown.held.is_empty();
            let newline = if is_cut { "\n" } else { "" };
            // Fails if no process reads standard error.
            let _written = rustix::io::write(stderr(), format!("{newline}{notice}").as_bytes());
        }
    }

    fn begin(&mut self) {
        let (blocks, taken) = sync_channel(WAITING);
        let (said, notice) = sync_channel(1);
        let (words, is_tail) = (std::mem::take(&mut self.words), self.is_tail);
        let work = move || drop(said.send(store(words, is_tail, &taken).unwrap_or_default()));
        let started = thread::Builder::new().name("store".to_owned()).spawn(work);
        self.is_refused = started.is_err();
        self.storing = started.is_ok().then_some(Storing { blocks, notice });
    }

    // Gives up if the store takes no block in time.
    fn give(&mut self, block: Block) {
        let (Some(storing), began) = (&self.storing, Instant::now()) else { return };
        let mut block = block;
        while let Err(error) = storing.blocks.try_send(block) {
            block = match error {
                TrySendError::Full(block) if began.elapsed() < STORE_PATIENCE => block,
                _ => {
                    (self.storing, self.is_refused) = (None, true);
                    return;
                }
            };
            thread::sleep(Duration::from_millis(1));
        }
    }
}

// Stores blocks of input. Without an end, nothing stays.
fn store(
    words: Vec<OsString>,
    is_tail: bool,
    blocks: &Receiver<Block>,
) -> anyhow::Result<Option<String>> {
    let cli = Cli::try_parse_from(words)?;
    let Command::Shell(args) = &cli.command else { return Ok(None) };
    let context = Context::new(&cli);
    let settings = std::sync::Arc::new(context.quiet_settings(&cli, Vec::new())?);
    let target = TargetConversation::open(args.conversation.as_deref(), &settings, &context)?;
    let name = OutputName::Call(format!("{}-pipe", args.id.as_deref().unwrap_or_default()));
    let mut intake = target.intake(name, provenance(args))?.keeping_end();
    while let Ok(block) = blocks.recv() {
        match block {
            Block::Input(bytes) => drop(intake.write_all(&bytes)),
            Block::End { shown, dropped } => {
                let place = if is_tail { "before these" } else { "not shown" };
                let output = intake.seal()?;
                let notice =
                    |shown: Vec<u8>| output.dropped_errors(&target.engine, &shown, dropped, place);
                let notice = shown.map_or(Ok(None), notice);
                target.engine.finish();
                return Ok(notice?);
            }
        }
    }
    Ok(intake.discard().map(|()| None)?)
}

/// Returns a line that names what filters of the command `id` have read, for a command that failed
/// and whose output does not say why. Returns `None` if nothing is stored. That `grep` fails because
/// no line matches needs no reason.
pub(crate) fn unexplained(target: &TargetConversation, id: &str) -> Option<String> {
    let (engine, conversation) = (&target.engine, target.conversation.id());
    let listing =
        engine.list_known_artifacts(conversation, |ListedArtifact { path, record, .. }| {
            let command = Title::of(&record.provenance)?.to_string();
            let is_input = record.provenance.call.as_deref() == Some(id)
                && record.incomplete().is_none()
                && NEVER_FAILING.iter().any(|filter| command.starts_with(filter));
            is_input.then(|| {
                format!("`{command}`: {}", engine.options.place(conversation, path).file())
            })
        });
    let inputs: Vec<String> = listing.ok()?.rows.into_iter().flatten().collect();
    let all = inputs.join("; ");
    (!inputs.is_empty())
        .then(|| format!("[ctxfs] nothing here says why it failed; all that came into {all}"))
}

fn provenance(args: &ShellArgs) -> Provenance {
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let command = shlex::try_join(words.iter().map(|word| &**word)).unwrap_or_default();
    let host = args.host.map_or("shell", Host::name).to_owned();
    Provenance {
        call: args.id.clone(),
        tool: Some("Bash".to_owned()),
        server: Some(host.clone()),
        host: Some(host),
        args: Some(serde_json::json!({ "command": format!("| {command}") }).to_string()),
        ..Provenance::default()
    }
}

/// The beginning of what passes through a pipe, and its length.
pub(crate) struct Stream {
    held: Vec<u8>,
    // Nothing more is held from so many bytes on.
    most: usize,
    length: OutputLength,
    ends_in_line: bool,
}

impl Stream {
    fn new(most: usize) -> Self {
        Self { held: Vec::new(), most, length: OutputLength::default(), ends_in_line: false }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        if self.is_whole() && self.held.len() < self.most {
            self.held.extend_from_slice(bytes);
        }
        self.length.add(bytes);
        self.ends_in_line = bytes.last() != Some(&b'\n');
    }

    fn is_whole(&self) -> bool {
        self.held.len() as u64 == self.length.bytes
    }

    fn lines(&self) -> u64 {
        self.length.newlines + u64::from(self.ends_in_line)
    }
}
