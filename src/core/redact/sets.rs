//! Named sets of patterns for keys and tokens whose issuers have published the format.
//!
//! In each pattern, the capture group is the secret. A secret may follow a blank, a punctuation
//! character, or an escaped line break in a JSON string.
//!
//! A pattern is tried only where one of its `beginnings` occurs. Hostile text may have many
//! beginnings without a complete match, so trying a pattern must be cheap. The regex therefore
//! matches only short text, except for a repetition at its end, which may be unlimited. A match
//! may have a long part that is not at its end, such as the first part of a JSON Web Token. The
//! regex then ends after the minimum length of that part, and [`PatternTail`] matches the rest. The
//! rest is examined once, and not again for each beginning in it.

/// A named set of patterns for the setting `redact.sets`. `about` describes the secrets that the
/// set finds.
#[derive(Debug)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct PatternSet {
    pub name: &'static str,
    pub about: &'static str,
    pub(super) patterns: &'static [SecretPattern],
}

/// A pattern of a set. Each match begins with `before` and one of `beginnings`, in upper or lower
/// case. `label` is the name that its masks show.
#[derive(Debug)]
pub(super) struct SecretPattern {
    pub(super) label: &'static str,
    pub(super) beginnings: &'static [&'static str],
    pub(super) before: PatternPrefix,
    pub(super) regex: &'static str,
    pub(super) tail: PatternTail,
    pub(super) check: SecretCheck,
}

/// The bytes that must come before the beginning of a pattern. `Anything`: any byte. `Break`: a
/// word boundary, or an escaped line break or tab. `Scheme`: the scheme of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternPrefix {
    Anything,
    Break,
    Scheme,
}

/// The continuation of a match. `Jwt`: the rest of the first part of a JSON Web Token, and its
/// other two parts. `Value`: the rest of an assigned value, and the byte that ends the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternTail {
    None,
    Jwt,
    Value,
}

/// A condition under which a match is a secret.
///
/// - `Literal`: the match is not a placeholder, such as `$PASSWORD`, `%(name)s` or `****`.
/// - `Mixed`: the match is not a placeholder, and has both letters and digits, unlike a word.
/// - `Key`: the match is the first line of a private key, and the rest of the key follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretCheck {
    None,
    Literal,
    Mixed,
    Key,
}

macro_rules! token {
    ($label:literal, $beginnings:expr, $regex:literal) => {
        token!($label, $beginnings, $regex, None)
    };
    ($label:literal, $beginnings:expr, $regex:literal, $tail:ident) => {
        SecretPattern {
            label: $label,
            beginnings: &$beginnings,
            before: PatternPrefix::Break,
            regex: concat!(r"(?-u)(?:\b|\\[nrt])(", $regex, ")"),
            tail: PatternTail::$tail,
            check: SecretCheck::None,
        }
    };
}

/// Defines the pattern of a value that is assigned to a name by `=`, `:`, `":"` or `\": \"`.
macro_rules! assigned {
    ($label:literal, $beginnings:expr, $name:literal, $value:literal, $check:ident) => {
        assigned!($label, $beginnings, $name, $value, None, $check)
    };
    ($label:literal, $beginnings:expr, $name:literal, $value:literal, $tail:ident, $check:ident) => {
        SecretPattern {
            label: $label,
            beginnings: &$beginnings,
            before: PatternPrefix::Anything,
            regex: concat!(
                r"(?-u)",
                $name,
                r#"\\?["']?\s{0,4}(?::=|=>|=|:)\s{0,4}\\?["']?"#,
                $value
            ),
            tail: PatternTail::$tail,
            check: SecretCheck::$check,
        }
    };
}

/// All sets. A pattern has precedence over the patterns of later sets.
pub const SETS: &[PatternSet] = &[
    PatternSet {
        name: "private-key",
        about: "private keys in PEM and PGP armour, whole",
        patterns: &[SecretPattern {
            label: "private-key",
            beginnings: &["-----BEGIN "],
            before: PatternPrefix::Anything,
            regex: r"(?-u)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
            tail: PatternTail::None,
            check: SecretCheck::Key,
        }],
    },
    PatternSet {
        name: "aws",
        about: "Amazon Web Services: access key ids, secret keys, session tokens",
        patterns: &[
            token!(
                "aws-key",
                ["AKIA", "ASIA", "ABIA", "ACCA"],
                r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"
            ),
            assigned!(
                "aws-secret",
                ["secretaccess", "secret_access"],
                "(?i:secret_?access_?key)",
                r"([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)",
                None
            ),
            assigned!(
                "aws-session",
                ["sessiontoken", "session_token"],
                "(?i:session_?token)",
                "([A-Za-z0-9/+=]{100,})",
                None
            ),
        ],
    },
    PatternSet {
        name: "github",
        about: "GitHub: personal, OAuth, app and refresh tokens",
        patterns: &[
            token!(
                "github-token",
                ["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
                r"gh[pousr]_[A-Za-z0-9]{36,}\b"
            ),
            token!(
                "github-token",
                ["github_pat_"],
                r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}\b"
            ),
        ],
    },
    PatternSet {
        name: "gitlab",
        about: "GitLab: personal, deploy, runner, trigger and job tokens",
        patterns: &[token!(
            "gitlab-token",
            ["glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-", "glft-"],
            r"gl(?:pat|dt|rt|ptt|cbt|soat|ft)-[A-Za-z0-9_-]{20,}"
        )],
    },
    PatternSet {
        name: "anthropic",
        about: "Anthropic: API, admin and OAuth keys",
        patterns: &[token!(
            "anthropic-key",
            ["sk-ant-"],
            r"sk-ant-[a-z]{3,10}[0-9]{2}-[A-Za-z0-9_-]{40,}"
        )],
    },
    PatternSet {
        name: "openai",
        about: "OpenAI: project, service account, admin and older keys",
        patterns: &[
            token!(
                "openai-key",
                ["sk-proj-", "sk-svcacct-", "sk-admin-"],
                r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,}"
            ),
            token!("openai-key", ["sk-"], r"sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}\b"),
        ],
    },
    PatternSet {
        name: "slack",
        about: "Slack: bot, user, app and refresh tokens, webhook addresses",
        patterns: &[
            token!(
                "slack-token",
                ["xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"],
                r"xox[abeoprs]-[A-Za-z0-9-]{10,}"
            ),
            token!(
                "slack-token",
                ["xapp-"],
                r"xapp-[0-9]-[A-Z0-9]{8,64}-[0-9]{8,64}-[a-f0-9]{32,}"
            ),
            SecretPattern {
                label: "slack-webhook",
                beginnings: &["hooks.slack.com/"],
                before: PatternPrefix::Anything,
                regex: r"(?-u)hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/_-]{20,})",
                tail: PatternTail::None,
                check: SecretCheck::None,
            },
        ],
    },
    PatternSet {
        name: "google",
        about: "Google: API keys, OAuth access tokens and client secrets",
        patterns: &[
            token!("google-key", ["AIza"], r"AIza[A-Za-z0-9_-]{35}"),
            token!("google-token", ["ya29."], r"ya29\.[A-Za-z0-9_-]{20,}"),
            token!("google-secret", ["GOCSPX-"], r"GOCSPX-[A-Za-z0-9_-]{28}"),
        ],
    },
    PatternSet {
        name: "stripe",
        about: "Stripe: secret and restricted keys, signing secrets",
        patterns: &[
            token!(
                "stripe-key",
                ["sk_live_", "sk_test_", "rk_live_", "rk_test_"],
                r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}\b"
            ),
            token!("stripe-secret", ["whsec_"], "whsec_[A-Za-z0-9+/=]{32,}"),
        ],
    },
    PatternSet {
        name: "npm",
        about: "npm access tokens",
        patterns: &[token!("npm-token", ["npm_"], r"npm_[A-Za-z0-9]{36}\b")],
    },
    PatternSet {
        name: "pypi",
        about: "PyPI upload tokens",
        patterns: &[token!("pypi-token", ["pypi-AgE"], "pypi-AgE[A-Za-z0-9_-]{50,}")],
    },
    PatternSet {
        name: "huggingface",
        about: "Hugging Face access tokens",
        patterns: &[token!("huggingface-token", ["hf_"], r"hf_[A-Za-z0-9]{34}\b")],
    },
    PatternSet {
        name: "jwt",
        about: "JSON Web Tokens that are signed",
        patterns: &[token!("jwt", ["eyJ"], "eyJ[A-Za-z0-9_-]{10}", Jwt)],
    },
    PatternSet {
        name: "bearer",
        about: "what follows `Authorization: Bearer`, `Basic` or `Token`, and `Bearer` elsewhere",
        patterns: &[
            assigned!(
                "authorization",
                ["authorization"],
                "(?i:authorization)",
                r"(?i:bearer|basic|token)\s{1,4}([A-Za-z0-9._~+/=-]{8,})",
                Literal
            ),
            SecretPattern {
                label: "authorization",
                beginnings: &["bearer"],
                before: PatternPrefix::Break,
                regex: r"(?-u)\b(?i:bearer)\s{1,4}([A-Za-z0-9._~+/=-]{20,})",
                tail: PatternTail::None,
                check: SecretCheck::Mixed,
            },
        ],
    },
    PatternSet {
        name: "url-password",
        about: "the password in `scheme://user:password@host`",
        patterns: &[SecretPattern {
            label: "url-password",
            beginnings: &["://"],
            before: PatternPrefix::Scheme,
            regex: r#"(?-u)\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@"'<>\\]{0,100}:([^\s/@"'<>\\]{3,200})@"#,
            tail: PatternTail::None,
            check: SecretCheck::Literal,
        }],
    },
    PatternSet {
        name: "generic",
        about: "a value of letters and digits given to a name such as `password`, `api_key`, `secret` or `token`",
        patterns: &[assigned!(
            "secret",
            [
                "passw",
                "passphrase",
                "secret",
                "token",
                "apikey",
                "api_key",
                "api-key",
                "accesskey",
                "access_key",
                "access-key",
            ],
            "(?i:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key)[A-Za-z0-9_]{0,16}",
            r#"([^\s"'<>\\,;(){}\[\]]{8})"#,
            Value,
            Mixed
        )],
    },
];

#[cfg(test)]
mod tests;
