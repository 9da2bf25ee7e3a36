//! Secrets: masked in what views show, and, where that is asked for, in what is stored.
//!
//! What is stored is masked in place when the last writer has gone, before it is recorded as sealed:
//! a mask is as long as its secret. Until then the bytes are on disk as they were written.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::file::FileNode;
use crate::fs::file::STEP;
use crate::model::Analysis;
use crate::model::Content;
use crate::model::Json;
use crate::model::Record;
use crate::model::Provenance;
use crate::redact::BLOCK;
use crate::redact::Masked;
use crate::redact::SecretRules;
use crate::redact::masks;
use crate::redact::settled;
use crate::store::Artifact;
use crate::store::stat_file;

/// The attribute in which a call's arguments are said.
const ARGS: &str = "user.ctx.args";

/// What is done about secrets.
#[derive(Debug, Clone)]
pub struct Redaction {
    /// What they look like.
    pub rules: Arc<SecretRules>,
    /// Whether they are masked in what is stored, too.
    pub stored: bool,
}

impl Redaction {
    /// What a writer said, without secrets.
    pub fn mask_arguments(&self, provenance: &mut Provenance) {
        provenance.args = provenance.args.take().map(|args| self.rules.mask_text(&args));
    }

    /// What was found in an output, without secrets: keys of JSON may hold some.
    pub fn hide_found(&self, found: &Analysis) -> Analysis {
        let mut found = found.clone();
        match &mut found.json {
            Json::Document { shape, example, .. } => {
                *shape = self.rules.mask_text(shape);
                *example = example.take().map(|path| self.rules.mask_text(&path));
            }
            Json::Lines { shape, .. } => *shape = self.rules.mask_text(shape),
            Json::No | Json::Broken { .. } => {}
        }
        found
    }
}

impl Shared {
    /// `content` as views show it, where that differs; what is known of it loses its secrets too.
    pub(crate) fn hide_secrets<'a>(
        &'a self,
        content: &'a dyn Content,
        record: &mut Record,
        analysis: &mut Arc<Analysis>,
    ) -> Option<Masked<'a>> {
        let redaction = self.options.redaction.as_ref()?;
        redaction.mask_arguments(&mut record.provenance);
        *analysis = Arc::new(redaction.hide_found(analysis));
        Some(Masked::new(content, &redaction.rules))
    }

    /// What masks in views can be called.
    pub(crate) fn mask_names(&self) -> &[String] {
        self.options.redaction.as_ref().map_or(&[], |redaction| redaction.rules.names())
    }

    /// The redaction of what is stored, where that is asked for.
    pub(crate) fn stored_redaction(&self) -> Option<&Redaction> {
        self.options.redaction.as_ref().filter(|redaction| redaction.stored)
    }

    /// The value of an attribute as it is to be stored.
    pub(crate) fn attribute_to_store(&self, name: &OsStr, value: &[u8]) -> Vec<u8> {
        match (self.stored_redaction(), str::from_utf8(value)) {
            (Some(redaction), Ok(text)) if name == ARGS => {
                redaction.rules.mask_text(text).into_bytes()
            }
            _ => value.to_vec(),
        }
    }

    /// Masks what is stored of a file that nobody writes: a step of it, or, where the mount is
    /// ending, all. Whether nothing is left to do.
    pub(crate) fn redact_stored(&self, file: &FileNode, ending: bool) -> Result<bool> {
        let Some(redaction) = self.stored_redaction() else { return Ok(true) };
        let open = Arc::new(file.open(OFlags::RDWR | OFlags::NOATIME)?);
        let mut steps = STEP / BLOCK;
        while ending || steps > 0 {
            if redact_block(file, &open, &redaction.rules)? {
                return Ok(true);
            }
            steps = steps.saturating_sub(1);
        }
        Ok(false)
    }
}

/// Masks the next block, while no byte can be written. Whether it was the last.
fn redact_block(file: &FileNode, open: &Arc<File>, rules: &SecretRules) -> Result<bool> {
    let mut writing = file.writing();
    let content = Artifact::new(Arc::clone(open), stat_file(open)?.size);
    if writing.writers > 0 {
        return Ok(true);
    }
    let number = writing.redacted / BLOCK;
    let read = |offset, length| content.bytes(offset, length);
    let masks = masks(rules, number, content.len(), read)?;
    for (offset, mask) in &masks {
        open.write_all_at(mask, *offset)?;
    }
    if !masks.is_empty() {
        writing.rewritten();
        writing.leave(&stat_file(open)?);
    }
    let end = (number + 1) * BLOCK;
    let done = end >= content.len();
    writing.redacted = if done { settled(content.len()) } else { end };
    Ok(done)
}
