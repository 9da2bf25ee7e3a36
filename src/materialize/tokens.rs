//! An estimate of language-model tokens.
//!
//! The bytes are cut into pieces as the pre-tokenizers of current vocabularies cut them: words (also
//! at a change from lower to upper case), digits, punctuation, white space, what is not ASCII. Each
//! piece costs what such pieces cost on average.
pub const TOKEN_ERROR_PERCENT: u32 = 15;
#[derive(Debug, Clone, Default)]
pub(super) struct Tokens {
    n: u64,
}
impl Tokens {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.n += bytes.len() as u64;
    }
    pub(super) fn count(&self) -> u64 {
        self.n / 4
    }
}
