//! Tests each pattern on artificial secrets in the right format, and on text that only resembles
//! them.
//!
//! The samples are assembled from parts so that secret scanners do not report this file.

use super::*;
use crate::redact::SecretRules;

/// Asserts that the set finds `secret` in `text`, and nothing else.
fn finds(set: &str, text: &str, secret: &str) {
    let set = SETS.iter().find(|known| known.name == set).unwrap();
    let rules = SecretRules::new(&[set], &[]).unwrap();
    let masked = rules.mask_text(text);
    let found: Vec<_> = rules.find(text.as_bytes(), 0).map(|found| found.range).collect();
    assert_eq!(found.len(), 1, "{text} -> {masked}");
    assert_eq!(&text[found[0].clone()], secret, "{text}");
    assert!(!masked.contains(secret) && masked.len() == text.len(), "{masked}");
    assert_eq!(rules.mask_text(&masked), masked, "a mask is no secret");
}

fn misses(set: &str, text: &str) {
    let set = SETS.iter().find(|known| known.name == set).unwrap();
    let rules = SecretRules::new(&[set], &[]).unwrap();
    assert_eq!(rules.mask_text(text), text);
}

/// Tests a secret in prose, as an assignment, as JSON, and in a JSON string after an escaped line
/// break.
fn finds_anywhere(set: &str, secret: &str) {
    finds(set, secret, secret);
    finds(set, &format!("a line with {secret} in it"), secret);
    finds(set, &format!("KEY={secret}\nnext"), secret);
    finds(set, &format!("{{\"x\": \"{secret}\", \"y\": 1}}"), secret);
    finds(set, &format!("{{\"x\": \"first\\n{secret}\\nlast\"}}"), secret);
}

const ALPHANUMERIC: &str = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5kM7oP9rS1uV3xY5zA7cD9fG1iK3lN5";

#[test]
fn names_are_unique_and_labels_fit() {
    for (at, set) in SETS.iter().enumerate() {
        assert!(SETS[..at].iter().all(|other| other.name != set.name));
        assert!(set.patterns.iter().all(|pattern| pattern.label.len() <= 32));
    }
}

#[test]
fn aws() {
    finds_anywhere("aws", concat!("AKI", "AQYLPMN5HHHFPZAM2"));
    finds_anywhere("aws", concat!("ASI", "AQYLPMN5HHHFPZAM2"));
    let secret = format!("{}/+", &ALPHANUMERIC[..38]);
    finds("aws", &format!("aws_secret_access_key = {secret}\n"), &secret);
    finds("aws", &format!("{{\"SecretAccessKey\": \"{secret}\"}}"), &secret);
    finds("aws", &format!("\\\"SecretAccessKey\\\": \\\"{secret}\\\""), &secret);
    let session = ALPHANUMERIC.repeat(3);
    finds("aws", &format!("AWS_SESSION_TOKEN={session}"), &session);
    misses("aws", "AKIAQYLPMN5HHHFPZAM");
    misses("aws", "AKIAQYLPMN5HHHFPZAM2X");
    misses("aws", "xAKIAQYLPMN5HHHFPZAM2");
    misses("aws", "akiaqylpmn5hhhfpzam2");
    misses("aws", &format!("commit {}", &ALPHANUMERIC[..40]));
}

#[test]
fn github() {
    for kind in ["p", "o", "u", "s", "r"] {
        finds_anywhere("github", &format!("gh{kind}_{}", &ALPHANUMERIC[..36]));
    }
    let fine = format!("github_pat_{}_{}", &ALPHANUMERIC[..22], &ALPHANUMERIC.repeat(2)[..59]);
    finds_anywhere("github", &fine);
    misses("github", &format!("ghp_{}", &ALPHANUMERIC[..35]));
    misses("github", &format!("ghx_{}", &ALPHANUMERIC[..36]));
    misses("github", &format!("github_pat_{}", &ALPHANUMERIC[..22]));
}

#[test]
fn gitlab() {
    finds_anywhere("gitlab", &format!("glpat-{}", &ALPHANUMERIC[..20]));
    finds_anywhere("gitlab", &format!("glrt-{}", &ALPHANUMERIC[..20]));
    misses("gitlab", "glpat-tooshort");
    misses("gitlab", &format!("glxyz-{}", &ALPHANUMERIC[..20]));
}

#[test]
fn anthropic() {
    finds_anywhere("anthropic", &format!("sk-ant-api03-{ALPHANUMERIC}-_AA"));
    finds_anywhere("anthropic", &format!("sk-ant-oat01-{ALPHANUMERIC}"));
    misses("anthropic", "sk-ant-api03-short");
    misses("anthropic", &format!("sk-and-api03-{ALPHANUMERIC}"));
}

#[test]
fn openai() {
    finds_anywhere("openai", &format!("sk-proj-{ALPHANUMERIC}"));
    finds_anywhere("openai", &format!("sk-svcacct-{ALPHANUMERIC}"));
    let old = format!("sk-{}T3BlbkFJ{}", &ALPHANUMERIC[..20], &ALPHANUMERIC[20..40]);
    finds_anywhere("openai", &old);
    misses("openai", &format!("sk-{}", &ALPHANUMERIC[..48]));
    misses("openai", "risk-projections-for-the-next-quarter-and-the-one-after");
}

#[test]
fn slack() {
    finds_anywhere("slack", concat!("xox", "b-123456789012-1234567890123-aB3dE5gH7jK9"));
    let app = format!("xapp-1-A0123456789-1234567890123-{}", "0123456789abcdef".repeat(4));
    finds_anywhere("slack", &app);
    let hook = concat!("T0123ABCD/B0123ABCD", "/aB3dE5gH7jK9mN1pQ3sT5vW7");
    finds("slack", &format!("curl https://hooks.slack.com/services/{hook} -d x"), hook);
    misses("slack", "xoxb-short");
    misses("slack", "https://hooks.slack.com/services/");
    misses("slack", "see xoxz-123456789012-1234567890123");
}

#[test]
fn google() {
    finds_anywhere("google", &format!("AIza{}", &ALPHANUMERIC[..35]));
    finds_anywhere("google", &format!("ya29.{}", &ALPHANUMERIC[..40]));
    finds_anywhere("google", &format!("GOCSPX-{}", &ALPHANUMERIC[..28]));
    misses("google", &format!("AIza{}", &ALPHANUMERIC[..34]));
    misses("google", "ya29 of the list");
}

#[test]
fn stripe() {
    finds_anywhere("stripe", &format!("{}{}", concat!("sk_", "live_"), &ALPHANUMERIC[..24]));
    finds_anywhere("stripe", &format!("{}{}", concat!("rk_", "test_"), &ALPHANUMERIC[..24]));
    finds_anywhere("stripe", &format!("{}{}", concat!("whs", "ec_"), &ALPHANUMERIC[..32]));
    misses("stripe", &format!("pk_live_{}", &ALPHANUMERIC[..24]));
    misses("stripe", "task_test_everything_in_order");
}

#[test]
fn npm_and_pypi_and_huggingface() {
    finds_anywhere("npm", &format!("npm_{}", &ALPHANUMERIC[..36]));
    misses("npm", "npm_config_registry_and_other_settings");
    finds_anywhere("pypi", &format!("pypi-AgEIcHlwaS5vcmc{ALPHANUMERIC}"));
    misses("pypi", "pypi-AgEshort");
    finds_anywhere("huggingface", &format!("hf_{}", &ALPHANUMERIC[..34]));
    misses("huggingface", "hf_hub_download(repo_id, filename)");
}

#[test]
fn jwt() {
    let token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P";
    finds_anywhere("jwt", token);
    misses("jwt", "eyJhbGciOiJIUzI1NiJ9");
    misses("jwt", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0");
    misses("jwt", "eyJhbGciOiJIUzI1NiJ9.notjson1234567890.dozjgNryP4J3jVmNHl0w5N");
}

#[test]
fn private_keys() {
    let line = &ALPHANUMERIC[..64];
    let begin = concat!("-----BEGIN RSA PRIV", "ATE KEY-----");
    let end = concat!("-----END RSA PRIV", "ATE KEY-----");
    let key = format!("{begin}\n{line}\n{line}\nabc=\n{end}");
    finds("private-key", &format!("before\n{key}\nafter\n"), &key);
    let escaped = key.replace('\n', "\\n");
    finds("private-key", &format!("{{\"private_key\": \"{escaped}\\n\"}}"), &escaped);
    let numbered: Vec<String> =
        key.lines().enumerate().map(|(number, line)| format!("{number}: {line}")).collect();
    let numbered = numbered.join("\n");
    finds("private-key", &numbered, &numbered[3..]);
    let headers = format!("{begin}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB\n\n{line}");
    finds("private-key", &headers, &headers);
    let cut = format!("{begin}\n{line}\n{line}");
    finds("private-key", &format!("{cut}\nan ordinary line\n"), &format!("{cut}\nan"));
    misses("private-key", &format!("grep -- '{begin}' *.pem"));
    misses("private-key", &format!("-----BEGIN CERTIFICATE-----\n{line}\n"));
}

#[test]
fn bearer() {
    let token = &ALPHANUMERIC[..40];
    finds("bearer", &format!("Authorization: Bearer {token}"), token);
    finds("bearer", "authorization: basic dXNlcjpwYXNz", "dXNlcjpwYXNz");
    finds("bearer", &format!("{{\"Authorization\": \"token {token}\"}}"), token);
    finds("bearer", &format!("-H 'Bearer {token}'"), token);
    misses("bearer", "Authorization: Bearer $TOKEN_OF_THE_USER");
    misses("bearer", "the bearer of-this-letter-may-enter-the-house");
    misses("bearer", "Authorization: Bearer [redacted:authorization]");
}

#[test]
fn url_passwords() {
    finds("url-password", "postgres://app:correct-horse@db:5432/x", "correct-horse");
    finds("url-password", "pull https://oauth2:abc123def@git.example/x.git", "abc123def");
    finds("url-password", "redis://:swordfish@cache", "swordfish");
    // The mask of a short secret extends to the left.
    finds("url-password", "amqp://guest:guest@mq", "st:guest");
    misses("url-password", "https://example.com:8080/a@b");
    misses("url-password", "https://user@example.com/");
    misses("url-password", "postgres://app:$PASSWORD@db");
    misses("url-password", "postgres://app:${DB_PASSWORD}@db");
    misses("url-password", "postgres://app:****@db");
}

#[test]
fn generic() {
    finds("generic", "password=hunter2-hunter2", "hunter2-hunter2");
    finds("generic", "DB_PASSWORD: 'abc123def'", "abc123def");
    finds("generic", "{\"api_key\": \"0123abcd4567\"}", "0123abcd4567");
    finds("generic", "\\\"client_secret\\\": \\\"0123abcd4567\\\"", "0123abcd4567");
    finds("generic", "api-key => 0123abcd4567;", "0123abcd4567");
    misses("generic", "password: string");
    misses("generic", "password = os.environ['DB_PASSWORD']");
    misses("generic", "password=12345678");
    misses("generic", "token = get_token_of_user1()");
    misses("generic", "PASSWORD=${DB_PASSWORD1}");
    misses("generic", "the password of user1234 was changed");
    misses("generic", "max_tokens: 128000, tokens: 45678");
}
