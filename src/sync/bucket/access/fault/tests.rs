//! Classification of error responses of stores.

use std::io;

use object_store::Error;

use super::Fault;
use crate::bucket::BucketError;

/// The innermost error of the client, given by its text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Text(String);

fn fault(text: &str) -> Fault {
    Fault::of(&Error::Generic { store: "S3", source: Box::new(Text(text.to_owned())) })
}

fn status(status: &str, code: &str) -> Fault {
    fault(&format!(
        "Server returned non-2xx status code: {status}: <?xml?><Error><Code>{code}</Code>\
         <Message>a\nb</Message><AWSAccessKeyId>AKSECRET</AWSAccessKeyId></Error>"
    ))
}

#[test]
fn an_answer_is_read_by_its_status_and_code() {
    let again = |why: &str| Fault::Again(why.to_owned());
    assert_eq!(status("503 Slow", "SlowDown"), again("it answers 503 SlowDown: a b"));
    for passing in ["500 Internal", "502 Bad", "429 Too", "408 Late"] {
        assert!(matches!(status(passing, "X"), Fault::Again(_)), "{passing}");
    }
    assert!(matches!(status("400 Bad", "RequestTimeout"), Fault::Again(_)));
    assert!(matches!(status("400 Bad", "ExpiredToken"), Fault::Refused(_)));
    assert!(matches!(status("400 Bad", "InvalidArgument"), Fault::Malformed(_)));
    for lasting in ["405 Not", "413 Large", "414 Long"] {
        assert!(matches!(status(lasting, "X"), Fault::Unfit(_)), "{lasting}");
    }
    assert!(matches!(status("401 Who", "X"), Fault::Refused(_)));
    assert!(matches!(status("403 No", "AccessDenied"), Fault::Refused(_)));
    assert!(matches!(status("501 What", "NotImplemented"), Fault::Unsupported(_)));
    assert!(matches!(status("301 There", "PermanentRedirect"), Fault::Never(_)));
    assert_eq!(status("404 None", "NoSuchBucket"), Fault::no_bucket());
    assert_eq!(status("412 There", "PreconditionFailed"), Fault::Exists);
}

#[derive(Debug, thiserror::Error)]
#[error("cannot open `/b/x`: {0}")]
struct OnDisk(#[source] io::Error);

#[test]
fn a_fault_of_a_directory_names_the_path_and_no_network() {
    let source = Box::new(OnDisk(io::Error::from_raw_os_error(libc::EIO)));
    let fault = Fault::of(&Error::Generic { store: "LocalFileSystem", source });
    let error = fault.into_error("read", "x");
    let told = error.to_string();
    assert!(matches!(error, BucketError::Disk { .. }) && error.may_pass(), "{told}");
    assert!(told.contains("/b/x") && told.contains("its disk"), "{told}");
    assert!(!told.contains("network"), "{told}");
}

/// Without the mark of the bucket there is nothing else, so a retry is all that is left.
#[test]
fn what_a_store_never_takes_concerns_that_key() {
    let long = io::Error::from_raw_os_error(libc::ENAMETOOLONG);
    for fault in [Fault::of_file(&long), status("400 Bad", "KeyTooLongError")] {
        let of = |key: &str| fault.clone().into_error("write", key);
        assert!(of("conversations/c7/log/x").is_of_key(), "{fault:?}");
        assert!(!of("conversations/c7/log/x").may_pass(), "{fault:?}");
        assert!(of("ctxfs.json").may_pass(), "{fault:?}");
    }
}

/// A proxy or a mistaken endpoint answers so to any request. Only the refusal to write an object
/// tells something of that object.
#[test]
fn an_unknown_bad_request_concerns_a_key_only_if_that_is_written() {
    let fault = || status("400 Bad", "InvalidRequest");
    let key = "conversations/c7/log/x";
    assert!(fault().into_error("write", key).is_of_key());
    for what in ["read", "list", "look at", "delete"] {
        let error = fault().into_error(what, key);
        assert!(error.may_pass() && !error.is_of_key(), "{what}: {error}");
    }
    let long = status("400 Bad", "KeyTooLongError").into_error("read", key);
    assert!(long.is_of_key(), "{long}");
}

#[test]
fn odd_answers_are_short_lines() {
    for body in ["", "<Code>", "</Code><Code>", "x", "\u{0}\u{1b}[31m", &"y".repeat(100_000)] {
        let Fault::Again(why) = fault(&format!("Server returned non-2xx status code: 500{body}"))
        else {
            panic!("500 is temporary")
        };
        assert!(why.len() < 400 && !why.contains(char::is_control), "{why}");
    }
    assert!(matches!(fault("Server returned non-2xx status code: "), Fault::Never(_)));
    assert!(matches!(fault("Server returned non-2xx status code: 5\u{e9}"), Fault::Never(_)));
    let long = fault(&"z\n".repeat(100_000));
    assert!(matches!(long, Fault::Never(why) if why.len() == 300 && !why.contains('\n')));
}

#[test]
fn keys_that_stay_are_told_by_their_code() {
    let kept = |code: &str| {
        fault(&format!("DeleteObjects request failed for key a (code: b): no (code: {code})"))
    };
    assert!(matches!(kept("AccessDenied"), Fault::Refused(_)));
    assert!(matches!(kept("SlowDown"), Fault::Again(_)));
    assert!(matches!(kept("Odd"), Fault::Never(_)));
    assert_eq!(kept("NoSuchKey"), Fault::Absent);
}

#[test]
fn a_missing_bucket_is_no_missing_object() {
    let missing = |code: &str| {
        let text = format!("Server returned non-2xx status code: 404 No: <Code>{code}</Code>");
        Fault::of(&Error::NotFound { path: "k".to_owned(), source: Box::new(Text(text)) })
    };
    assert_eq!(missing("NoSuchKey"), Fault::Absent);
    assert_eq!(missing("NoSuchBucket"), Fault::no_bucket());
}

#[test]
fn a_disk_has_faults_of_its_own() {
    let of = |store: &'static str, kind: io::ErrorKind| {
        Fault::of(&Error::Generic { store, source: Box::new(io::Error::from(kind)) })
    };
    let disk = |kind| of("LocalFileSystem", kind);
    assert!(matches!(disk(io::ErrorKind::PermissionDenied), Fault::Denied(_)));
    assert!(matches!(disk(io::ErrorKind::StorageFull), Fault::Disk(_)));
    assert!(matches!(disk(io::ErrorKind::TimedOut), Fault::Again(_)));
    // A file of credentials.
    assert!(matches!(of("S3", io::ErrorKind::PermissionDenied), Fault::Refused(_)));
    assert!(matches!(of("S3", io::ErrorKind::NotFound), Fault::Never(_)));
}

#[test]
fn no_text_repeats_a_key_of_access() {
    let faults = [status("403 No", "SignatureDoesNotMatch"), status("500 Oh", "InternalError")];
    for fault in faults {
        let error = fault.into_error("read", "k");
        assert!(!error.to_string().contains("AKSECRET"), "{error}");
    }
}

#[test]
fn a_key_that_is_no_path_is_named() {
    let source = object_store::path::Path::parse("c/log//x").unwrap_err();
    let error = Fault::of(&Error::InvalidPath { source }).into_error("list", "c/log/");
    assert!(error.is_of_key() && !error.may_pass());
    let text = error.to_string();
    assert!(text.contains("c/log//x") && text.contains("Delete it"), "{text}");
}
