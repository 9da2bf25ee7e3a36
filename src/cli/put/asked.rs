//! What an output is kept by: options and settings.

use crate::cli::args::PutArgs;
use crate::cli::config::Settings;
use crate::fs::Redaction;
use crate::model::Limits;
use crate::model::LimitsByTool as _;
use crate::model::Said;
use crate::redact::Rules;

/// What was asked for.
pub(super) struct Asked<'a> {
    pub(super) args: &'a PutArgs,
    pub(super) settings: Settings,
    /// Those of the tool.
    pub(super) limits: Limits,
    pub(super) redaction: Option<Redaction>,
}

impl<'a> Asked<'a> {
    /// What `args` ask for where `settings` hold.
    pub(super) fn new(args: &'a PutArgs, settings: Settings) -> anyhow::Result<Self> {
        let redaction = settings.redaction()?;
        let limits = settings.limits(said(args).tool_name().as_deref());
        Ok(Self { args, settings, limits, redaction })
    }

    /// What the options say of the call, as it is to be stored.
    pub(super) fn said(&self) -> Said {
        let mut said = said(self.args);
        if let Some(redaction) = self.stored_redaction() {
            redaction.hide_said(&mut said);
        }
        said
    }

    /// What is masked before it is stored.
    pub(super) fn stored_rules(&self) -> Option<&Rules> {
        self.stored_redaction().map(|redaction| redaction.rules.as_ref())
    }

    fn stored_redaction(&self) -> Option<&Redaction> {
        self.redaction.as_ref().filter(|redaction| redaction.stored)
    }
}

fn said(args: &PutArgs) -> Said {
    Said {
        call: args.call.clone(),
        tool: args.tool.clone(),
        server: args.server.clone(),
        args: args.args.clone(),
        exit_code: args.exit_code,
        mime: args.mime.clone(),
    }
}
