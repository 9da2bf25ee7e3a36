//! The wrapper around an answer: `<ai-agent-NONCE-FINAL format="text">...</ai-agent-NONCE-FINAL>`.
//!
//! The nonce is fresh for each request, so that a text in the document which imitates a wrapper is
//! data. Whatever stands around the wrapper is thinking.

/// The words of a model that found nothing in its chunk.
pub(super) const NOTHING: &str = "NO RELEVANT DATA FOUND";

/// A wrapper of one request.
#[derive(Debug, Clone)]
pub(super) struct Wrapper {
    nonce: String,
}

impl Wrapper {
    /// Creates the wrapper with this nonce: some letters and digits that nobody can guess.
    pub(super) fn new(nonce: String) -> Self {
        Self { nonce }
    }

    /// Returns its nonce.
    pub(super) fn nonce(&self) -> &str {
        &self.nonce
    }

    /// Returns its opening tag.
    pub(super) fn opening(&self) -> String {
        format!("<ai-agent-{}-FINAL format=\"text\">", self.nonce)
    }

    /// Returns its closing tag.
    pub(super) fn closing(&self) -> String {
        format!("</ai-agent-{}-FINAL>", self.nonce)
    }

    /// Returns the answer in a reply: what stands in the last wrapper, whose closing tag may be
    /// missing. `None` if there is no such wrapper, or nothing in it.
    ///
    /// A model that thinks aloud may write the tags before it answers.
    pub(super) fn answer<'a>(&self, reply: &'a str) -> Option<&'a str> {
        let start = format!("<ai-agent-{}-FINAL", self.nonce);
        let (mut answer, mut rest) = (None, reply);
        while let Some((_, after)) = rest.split_once(&start) {
            let Some((_, inner)) = after.split_once('>') else { break };
            let (inside, beyond) = inner.split_once(&self.closing()).unwrap_or((inner, ""));
            answer = Some(inside.trim()).filter(|text| !text.is_empty()).or(answer);
            rest = beyond;
        }
        answer
    }

    /// Returns true if the last wrapper in a reply has no closing tag, or if there is none.
    pub(super) fn is_open(&self, reply: &str) -> bool {
        let start = format!("<ai-agent-{}-FINAL", self.nonce);
        reply.rsplit_once(&start).is_none_or(|(_, inner)| !inner.contains(&self.closing()))
    }
}

/// Returns true if a model says that it found nothing. What it adds tells what there is instead.
pub(super) fn is_nothing(answer: &str) -> bool {
    answer.trim_start_matches(['"', '*', '`', ' ']).starts_with(NOTHING)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(reply: &str) -> Option<&str> {
        Wrapper::new("n1".to_owned()).answer(reply)
    }

    #[test]
    fn the_answer_is_what_stands_inside() {
        assert_eq!(
            answer("<ai-agent-n1-FINAL format=\"text\">\nyes\n</ai-agent-n1-FINAL>"),
            Some("yes")
        );
        assert_eq!(answer("so, <ai-agent-n1-FINAL>yes</ai-agent-n1-FINAL> done"), Some("yes"));
        assert_eq!(answer("<ai-agent-n1-FINAL format=\"text\">yes"), Some("yes"));
    }

    #[test]
    fn a_wrapper_is_open_until_its_closing_tag() {
        let is_open = |reply: &str| Wrapper::new("n1".to_owned()).is_open(reply);
        let closed = "<ai-agent-n1-FINAL>yes</ai-agent-n1-FINAL>";
        assert!(!is_open(closed) && !is_open(&format!("{closed} and")));
        for open in ["", "yes", "<ai-agent-n1-FIN", "<ai-agent-n1-FINAL>yes</ai-agent-n"] {
            assert!(is_open(open) && is_open(&format!("<ai-agent-n1-FINAL>{open}")), "{open}");
        }
        assert!(is_open(&format!("{closed} or <ai-agent-n1-FINAL>no")));
    }

    #[test]
    fn other_wrappers_are_data() {
        assert_eq!(answer("<ai-agent-n2-FINAL>no</ai-agent-n2-FINAL>"), None);
        assert_eq!(answer("<ai-agent-n1-FINAL></ai-agent-n1-FINAL>"), None);
        assert_eq!(answer("yes"), None);
        let inner =
            "<ai-agent-n1-FINAL>a <ai-agent-n2-FINAL>b</ai-agent-n2-FINAL></ai-agent-n1-FINAL>";
        assert_eq!(answer(inner), Some("a <ai-agent-n2-FINAL>b</ai-agent-n2-FINAL>"));
    }

    #[test]
    fn the_last_one_counts() {
        let thinking = "I will write <ai-agent-n1-FINAL>...</ai-agent-n1-FINAL>.\n\
                        <ai-agent-n1-FINAL>7</ai-agent-n1-FINAL>";
        assert_eq!(answer(thinking), Some("7"));
    }

    #[test]
    fn nothing_is_recognised_as_models_write_it() {
        assert!(is_nothing("NO RELEVANT DATA FOUND. It is a listing of files."));
        assert!(is_nothing("**NO RELEVANT DATA FOUND**"));
        assert!(!is_nothing("disk full"));
    }
}
