//! URLs that are accepted and URLs that are refused.

use std::fs;

use super::{BucketUrl, NEXT, TRUNCATED, check};
use crate::bucket::error::BucketError;

fn settings(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn refusal(url: &str, pairs: &[(&str, &str)]) -> String {
    match BucketUrl::parse(url).unwrap().open(settings(pairs)) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{url} opens"),
    }
}

#[test]
fn every_service_has_a_form() {
    for (text, shown, prefix) in [
        ("s3://bucket", "s3://bucket", ""),
        ("s3://bucket/", "s3://bucket", ""),
        ("s3://b.c-d_e/p/q/", "s3://b.c-d_e/p/q", "p/q"),
        ("gs://bucket/prefix", "gs://bucket/prefix", "prefix"),
        ("az://container/p", "az://container/p", "p"),
        ("file:///a%20b", "file:///a b", ""),
        ("memory:", "memory:", ""),
    ] {
        let url = BucketUrl::parse(text).unwrap();
        assert_eq!((url.to_string().as_str(), url.prefix()), (shown, prefix), "{text}");
    }
}

#[test]
fn other_texts_are_refused_and_not_repeated() {
    for text in [
        "",
        "bucket",
        "ftp://bucket",
        "s3:bucket",
        "s3://",
        "s3://AKSECRET:PWSECRET@bucket/p",
        "s3://bucket:9000/p",
        "s3://bucket/p?token=PWSECRET",
        "s3://bucket/AKSECRET:PWSECRET@p",
        "s3://../p",
        "s3://bucket/a//b",
        "s3://bucket/../b",
        "s3://bucket/a\nb",
        "file://host/dir",
        "file:dir",
        "file:///a/../b",
        "file:///a%00",
        "PWSECRET://x",
    ] {
        let error = BucketUrl::parse(text).unwrap_err();
        assert!(matches!(error, BucketError::Url { .. }), "{text}: {error}");
        if !text.starts_with("PWSECRET") {
            assert!(!error.to_string().contains("SECRET"), "{error}");
        }
    }
}

#[test]
fn a_directory_need_not_be_there_but_its_parent_must() {
    let parent = tempfile::tempdir().unwrap();
    let shared = parent.path().join("shared");
    let url = |path: &std::path::Path| format!("file://{}", path.display());
    BucketUrl::parse(&url(&shared)).unwrap().open([]).unwrap();
    assert!(!shared.exists(), "nothing is made by opening");
    assert!(refusal(&url(&parent.path().join("no/such")), &[]).contains("is its disk mounted?"));
    let file = parent.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(refusal(&url(&file), &[]).contains("no directory"));
}

#[test]
fn a_plain_connection_is_for_this_host_or_for_who_asks() {
    for (endpoint, allow) in [
        ("http://127.0.0.1:9000", None),
        ("http://localhost/x", None),
        ("http://[::1]:9000", None),
        ("https://s3.example", None),
        ("http://s3.example", Some("true")),
    ] {
        let mut pairs = settings(&[("AWS_ENDPOINT_URL", endpoint), ("AWS_REGION", "r")]);
        pairs.extend(allow.map(|value| ("AWS_ALLOW_HTTP".to_owned(), value.to_owned())));
        assert!(BucketUrl::parse("s3://bucket").unwrap().open(pairs).is_ok(), "{endpoint}");
    }
    for endpoint in ["http://s3.example", "http://127.0.0.1.example", "http://localhost.example"] {
        let error = refusal("s3://bucket", &[("AWS_ENDPOINT_URL", endpoint)]);
        assert!(error.contains("AWS_ALLOW_HTTP=true"), "{error}");
    }
}

#[test]
fn a_wrong_setting_is_told_without_the_secret() {
    let error = refusal(
        "s3://bucket",
        &[
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "PWSECRET"),
            ("AWS_UNSIGNED_PAYLOAD", "perhaps"),
        ],
    );
    assert!(error.contains("perhaps") && !error.contains("PWSECRET"), "{error}");
}

#[test]
fn a_variable_that_a_client_would_panic_at_is_refused_by_name() {
    for (name, value) in [
        ("AWS_ENDPOINT_URL", "localhost:9000"),
        ("AWS_ENDPOINT_URL", "nonsense"),
        ("AWS_ENDPOINT_URL", "//host"),
        ("AWS_ENDPOINT_URL", "htps://host"),
        ("AWS_ENDPOINT_URL", "https://"),
        ("AWS_ENDPOINT_URL", "https://a b"),
        ("AWS_ENDPOINT_URL", "https://[::1"),
        ("AWS_ENDPOINT_URL", "https://host:99999"),
        ("AWS_ENDPOINT_URL_S3", "https://1.2.3.999"),
        ("AWS_ENDPOINT_URL_STS", "nonsense"),
        ("AWS_REGION", "us east"),
        ("AWS_DEFAULT_REGION", "us:1"),
        ("AWS_ACCESS_KEY_ID", "PWSECRET\r"),
        ("AWS_SECRET_ACCESS_KEY", "PWSECRET\n"),
        ("AWS_SESSION_TOKEN", "PW SECRET"),
    ] {
        let error = refusal("s3://bucket", &[(name, value)]);
        assert!(error.contains(&format!("`{name}`")), "{value}: {error}");
        assert!(!error.contains("PW"), "{error}");
    }
    let error = refusal("gs://bucket", &[("GOOGLE_BASE_URL", "nonsense")]);
    assert!(error.contains("`GOOGLE_BASE_URL`"), "{error}");
    for endpoint in ["https://host:9000/path", "https://1.2.3.4", "https://[::1]:9000"] {
        let pairs = settings(&[("AWS_ENDPOINT_URL", endpoint), ("AWS_REGION", "auto")]);
        assert!(BucketUrl::parse("s3://bucket").unwrap().open(pairs).is_ok(), "{endpoint}");
    }
}

#[test]
fn a_service_account_that_a_client_would_panic_at_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("account.json");
    let named = file.display().to_string();
    let account = |address: &str| {
        let rest = r#""client_email":"","private_key":"PWSECRET","private_key_id":"","disable_oauth":true"#;
        format!(r#"{{"gcs_base_url":"{address}",{rest}}}"#)
    };
    for bad in ["", "nonsense", "https://a b", "https://host:99999"] {
        fs::write(&file, account(bad)).unwrap();
        let whole = account(bad);
        for (name, value) in [
            ("GOOGLE_SERVICE_ACCOUNT", named.as_str()),
            ("GOOGLE_SERVICE_ACCOUNT_PATH", named.as_str()),
            ("GOOGLE_SERVICE_ACCOUNT_KEY", whole.as_str()),
        ] {
            let error = refusal("gs://bucket", &[(name, value)]);
            assert!(error.contains(name) && error.contains("gcs_base_url"), "{error}");
            assert!(!error.contains("PW"), "{error}");
        }
    }
    fs::write(&file, account("https://host:4443")).unwrap();
    let pairs = settings(&[("GOOGLE_SERVICE_ACCOUNT", &named)]);
    assert!(BucketUrl::parse("gs://bucket").unwrap().open(pairs).is_ok());
    let absent = directory.path().join("absent").display().to_string();
    let error = refusal("gs://bucket", &[("GOOGLE_SERVICE_ACCOUNT", &absent)]);
    assert!(!error.contains("gcs_base_url"), "{error}");
}

#[test]
fn the_environment_does_not_choose_the_bucket() {
    let pairs = settings(&[("AWS_BUCKET", "other"), ("AWS_REGION", "r")]);
    let opened = BucketUrl::parse("s3://mine").unwrap().open(pairs).unwrap();
    let super::OpenStore::Cloud { store, .. } = opened else { panic!("S3 is a cloud") };
    assert!(store.to_string().contains("mine"), "{store}");
}

#[test]
fn a_response_tells_the_time_or_none() {
    let clock = super::ResponseClock::default();
    let hear = |date: Option<&'static str>| {
        let date = date.map(|date| (super::DATE, super::HeaderValue::from_static(date)));
        clock.hear(&date.into_iter().collect());
        clock.last_ms()
    };
    assert_eq!(clock.last_ms(), None);
    assert_eq!(hear(Some("Sun, 06 Nov 1994 08:49:37 GMT")), Some(784_111_777_000));
    assert_eq!(hear(Some("yesterday")), None);
    assert_eq!(hear(Some("Mon, 30 Nov 2026 19:50:09 GMT")), Some(1_796_068_209_000));
    assert_eq!(hear(None), None);
}

#[test]
fn an_answer_that_is_no_list_is_told_from_an_empty_one() {
    let xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
    for list in [
        format!("{xml}\n<ListBucketResult xmlns=\"http://s3\"></ListBucketResult>"),
        "<ListBucketResult/>".to_owned(),
        format!("\u{feff}{xml}<EnumerationResults/>"),
        format!("{xml}<ListBucketResult>{TRUNCATED}{NEXT}x</NextContinuationToken>"),
    ] {
        assert!(check(list.as_bytes()).is_ok(), "{list}");
    }
    for other in [
        "",
        "<html><body>The gateway is busy.</body></html>",
        "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code></Error>",
        "{}",
        "<?xml <ListBucketResult/>",
        &format!("<ListBucketResult>{TRUNCATED}</ListBucketResult>"),
    ] {
        assert!(check(other.as_bytes()).is_err(), "{other}");
    }
}
