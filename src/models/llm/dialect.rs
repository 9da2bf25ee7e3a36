//! The parameters that an endpoint accepts.

/// Parameters of requests that only some endpoints accept. If an endpoint rejects a parameter by
/// name, later requests omit or replace it.
///
/// If `completion_tokens` is true, the limit of the reply is sent as `max_completion_tokens`,
/// otherwise as `max_tokens`. Reasoning models of `OpenAI` require the former, and reject
/// `temperature`. `counts` requests the token counts of a streamed reply, by `stream_options`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) completion_tokens: bool,
    pub(super) temperature: bool,
    pub(super) counts: bool,
    pub(super) schema: SchemaUse,
}

/// Way in which the schema of the reply is sent: as a requirement, as advice, or not at all.
/// `OpenAI` accepts any schema as advice, but only a subset of JSON Schema as a requirement. The
/// prompt describes the format of the reply as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaUse {
    Strict,
    Advice,
    Left,
}

impl Default for Dialect {
    fn default() -> Self {
        let schema = SchemaUse::Strict;
        Self { completion_tokens: false, temperature: true, counts: true, schema }
    }
}

impl Dialect {
    /// Returns the dialect without the parameter that caused a rejection. Returns `None` if the
    /// error names no parameter of this dialect.
    pub(super) fn without(self, complaint: &crate::llm::fault::Complaint) -> Option<Self> {
        let is_schema = ["response_format", "json_schema", "output_config", "output_format"]
            .iter()
            .any(|name| complaint.names(name));
        if !self.completion_tokens && complaint.names("max_completion_tokens") {
            Some(Self { completion_tokens: true, ..self })
        } else if self.counts && complaint.names("stream_options") {
            Some(Self { counts: false, ..self })
        } else if is_schema {
            self.schema.weaker().map(|schema| Self { schema, ..self })
        } else if self.temperature && complaint.names("temperature") {
            Some(Self { temperature: false, ..self })
        } else {
            None
        }
    }
}

impl SchemaUse {
    fn weaker(self) -> Option<Self> {
        match self {
            Self::Strict => Some(Self::Advice),
            Self::Advice => Some(Self::Left),
            Self::Left => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::fault::Complaint;

    #[test]
    fn what_is_rejected_is_left_out() {
        let all = Dialect::default();
        let table = [
            (
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                 'max_completion_tokens' instead.",
                Some(Dialect { completion_tokens: true, ..all }),
            ),
            (
                "`temperature` is deprecated for this model",
                Some(Dialect { temperature: false, ..all }),
            ),
            ("stream_options: extra field", Some(Dialect { counts: false, ..all })),
            (
                "Invalid schema for response_format 'action'",
                Some(Dialect { schema: SchemaUse::Advice, ..all }),
            ),
            (
                "output_config: Extra inputs are not permitted",
                Some(Dialect { schema: SchemaUse::Advice, ..all }),
            ),
            ("unknown model", None),
        ];
        for (message, left) in table {
            let complaint = Complaint::read(message.as_bytes());
            assert_eq!(all.without(&complaint), left, "{message}");
            let mut dialect = all;
            let steps = (0..9).take_while(|_| {
                dialect.without(&complaint).inspect(|left| dialect = *left).is_some()
            });
            assert!(steps.count() <= 2, "{message}");
        }
    }
}
