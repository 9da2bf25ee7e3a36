//! The engine as the message log sees it: long outputs in messages become artifacts.

use std::io;
use std::io::{Read, Write};
use std::sync::Arc;

use crate::intake::{NewOutput, OutputName};
use crate::patience::{allow_slow, to_the_end};
use crate::stand_in::StoredOutput;
use crate::{Engine, EngineError, stand_in};
use ctxfs_core::model::{Limits, RelPath};
use ctxfs_store::Conversation;
use ctxfs_store::message::{Host, LongOutput, MessageError, Preview};
use ctxfs_view::View;

/// The engine for the message log of one conversation.
pub(crate) struct MessageHost<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) conversation: &'a Arc<Conversation>,
}

impl MessageHost<'_> {
    /// Opens the output at `path`. Its preview needs no analysis.
    fn output(&self, path: &RelPath) -> Result<StoredOutput, EngineError> {
        let stat = self.conversation.dir().stat_at(path)?;
        let record = self.conversation.record_for(path, &stat)?;
        StoredOutput::open(self.engine, self.conversation, record, false)
    }
}

impl Host for MessageHost<'_> {
    fn limits(&self, tool: Option<&str>) -> Limits {
        self.engine.options.limits.limits(tool)
    }

    fn is_stored(&self, reference: &str) -> bool {
        stand_in::is_stored(self.engine, reference)
    }

    fn is_stand_in(&self, output: &[u8], limits: &Limits) -> io::Result<bool> {
        stand_in::is_stand_in(self.engine, output, limits)
    }

    fn masks_stored(&self) -> bool {
        self.engine.secrets.stored_rules().is_some()
    }

    fn write_stored(&self, output: &mut dyn Read, sink: &mut dyn Write) -> io::Result<()> {
        let mut sink = self.engine.secrets.stored_form(sink);
        io::copy(output, &mut sink)?;
        sink.finish()
    }

    fn allow_storing(&self) -> Result<(), MessageError> {
        Ok(allow_slow()?)
    }

    fn take_in(&self, output: LongOutput<'_>) -> Result<RelPath, MessageError> {
        let LongOutput { call, provenance, length, mut content } = output;
        let (name, length) = (OutputName::Call(call), Some(length));
        let output = NewOutput { name, provenance, length };
        // Others of the message may be stored already.
        to_the_end(|| {
            let mut intake = self.engine.intake(self.conversation, output)?;
            let copied = io::copy(&mut content, &mut intake).and_then(|_| intake.finish());
            copied.map_err(EngineError::from)?;
            Ok(intake.seal()?.path().clone())
        })
    }

    fn preview(&self, path: &RelPath) -> Result<Preview, MessageError> {
        let output = self.output(path)?;
        let text = self.engine.view_in_place(&output, &View::Preview)?;
        let text = String::from_utf8(text).map_err(io::Error::other)?;
        let full_output_path = output.place().file();
        Ok(Preview { text: text.trim_end().to_owned(), full_output_path })
    }
}
