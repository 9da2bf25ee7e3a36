//! The engine as the message log sees it: long outputs in messages become artifacts.

use std::io;
use std::io::Read;
use std::io::Write;
use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::Result;
use crate::engine::analysis::sniff;
use crate::materialize::token_count;
use crate::message::Host;
use crate::message::Preview;
use crate::model::Amount;
use crate::model::Limits;
use crate::model::NoFilters;
use crate::model::Place;
use crate::model::Record;
use crate::model::RelPath;
use crate::model::Subject;
use crate::redact::Masked;
use crate::redact::MaskingWriter;
use crate::store::Artifact;
use crate::store::Conversation;
use crate::view;
use crate::view::Audience;
use crate::view::Form;
use crate::view::StandIn;
use crate::view::View;

/// The engine for the message log of one conversation.
pub(crate) struct MessageHost<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) conversation: &'a Arc<Conversation>,
}

impl MessageHost<'_> {
    /// Hands `content` to `render` as views see it.
    fn with_subject<T>(
        &self,
        content: &Artifact,
        record: &mut Record,
        limits: &Limits,
        place: &Place,
        render: impl FnOnce(&Subject<'_>) -> T,
    ) -> Result<T> {
        let mut analysis = sniff(content)?.analysis;
        let masked = self.engine.secrets.mask(content, record, &mut analysis);
        let subject = Subject {
            content: masked.as_ref().map_or(content as _, |masked: &Masked<'_>| masked),
            analysis: &analysis,
            record,
            place,
            limits,
            redacts: self.engine.secrets.mask_names(),
            filters: &NoFilters,
        };
        Ok(render(&subject))
    }
}

impl Host for MessageHost<'_> {
    fn limits(&self, tool: Option<&str>) -> Limits {
        self.engine.options.limits.limits(tool)
    }

    fn is_stored(&self, reference: &str) -> bool {
        self.engine.store.resolve(reference).is_ok_and(|found| found.is_some())
    }

    fn is_stand_in(&self, output: &[u8], limits: &Limits) -> io::Result<bool> {
        let analysis = sniff(&output)?.analysis;
        let subject = Subject {
            content: &output,
            analysis: &analysis,
            record: &Record::default(),
            place: &Place::alone(""),
            limits: &Limits { message_threshold: 0, ..limits.clone() },
            redacts: &[],
            filters: &NoFilters,
        };
        let is_stored = |reference: &str| self.is_stored(reference);
        let audience = Audience { tools: &[], is_stored: &is_stored };
        let found = view::stand_in(Form::Preview, &subject, &audience).map_err(io::Error::other)?;
        Ok(found == StandIn::Unchanged)
    }

    fn room(&self, bytes: u64) -> io::Result<()> {
        Ok(self.engine.check_room_for_output(self.conversation, bytes)?)
    }

    fn store(&self, output: &mut dyn Read, sink: &mut dyn Write) -> io::Result<()> {
        let Some(rules) = self.engine.secrets.stored_rules() else {
            return io::copy(output, sink).map(|_| ());
        };
        let mut masked = MaskingWriter::new(rules, sink);
        io::copy(output, &mut masked)?;
        masked.finish()?;
        Ok(())
    }

    fn stored(&self, record: &Record) {
        self.engine.counting.stored(self.conversation.id(), record);
    }

    fn preview(&self, path: &RelPath, limits: &Limits) -> io::Result<Preview> {
        let content = Artifact::open(self.conversation.dir(), path)?;
        let stat = self.conversation.dir().stat_at(path)?;
        let mut record = self.conversation.record_for(path, &stat).map_err(io::Error::other)?;
        let place = self.engine.options.place(self.conversation.id(), path);
        let mut text = Vec::new();
        let rendered = self.with_subject(&content, &mut record, limits, &place, |subject| {
            view::render(&View::Preview, subject, &|| false, &mut text)
        });
        rendered?.map_err(io::Error::other)?;
        let amount = Amount::once(text.len() as u64, token_count(&text));
        self.engine.counting.handed(self.conversation.id(), &record, amount);
        let text = String::from_utf8(text).map_err(io::Error::other)?;
        Ok(Preview { text: text.trim_end().to_owned(), full_output_path: place.file() })
    }
}
