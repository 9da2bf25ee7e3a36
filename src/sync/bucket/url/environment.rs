
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};

use hyper::Uri;
use serde::Deserialize;

///+ Variables with URLs, in lower case.
const ADDRESSES: [&str; 8] = [
    "aws_endpoint_url",
    "aws_endpoint_url_s3",
    "aws_endpoint_url_sts",
    "aws_endpoint",
    "aws_metadata_endpoint",
    "google_base_url",
    "azure_storage_endpoint",
    "azure_endpoint",
];
///+ Variables that become part of a header.
const KEYS: [&str; 4] =
    ["aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_token"];
///+ Variables with the path of a service account file, and the variable with its content.
const ACCOUNT_FILES: [&str; 2] = ["google_service_account", "google_service_account_path"];
const ACCOUNT: &str = "google_service_account_key";
///+ Variables that become part of a host name.
const REGIONS: [&str; 2] = ["aws_region", "aws_default_region"];

///+ Returns what is wrong with the value of a variable: the clients of the stores would panic at it.
///+ The text quotes nothing of the value, which may be a secret.
pub(super) fn flaw(name: &str, value: &str) -> Option<&'static str> {
    if ADDRESSES.contains(&name) && !is_address(value) {
        return Some("is not the URL of a host: write `https://HOST` or `https://HOST:PORT`");
    }
    if KEYS.contains(&name) && !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some("has a space, an end of a line or another byte that no key has: set it again");
    }
    if REGIONS.contains(&name) && !value.bytes().all(is_of_a_name) {
        return Some("is not the name of a region: write one such as `us-east-1`");
    }
    let is_right = address_of_account(name, value).is_none_or(|address| is_address(&address));
    (!is_right).then_some(
        "leads to a service account whose `gcs_base_url` is not the URL of a host: write \
         `https://HOST` there, or remove that line",
    )
}

///+ The part of a Google service account that its client does not check.
#[derive(Deserialize)]
struct Account {
    gcs_base_url: Option<String>,
}

///+ Returns the URL in the service account that a variable names or contains. The client itself
///+ reports an unreadable one.
fn address_of_account(name: &str, value: &str) -> Option<String> {
    let account = match name {
        ACCOUNT => value.as_bytes().to_vec(),
        name if ACCOUNT_FILES.contains(&name) => fs::read(value).ok()?,
        _ => return None,
    };
    serde_json::from_slice::<Account>(&account).ok()?.gcs_base_url
}

///+ Returns true for the URL of a host, parsed as strictly as the strictest client does.
fn is_address(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let Some(authority) = uri.authority() else { return false };
    let host = authority.host();
    let whole = authority.as_str();
    let place = whole.rsplit_once('@').map_or(whole, |(_, place)| place);
    let is_port = match place.strip_prefix(host) {
        Some("") => true,
        Some(port) => port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok()),
        None => false,
    };
    matches!(uri.scheme_str(), Some("http" | "https")) && is_host(host) && is_port
}

fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[') {
        let address = address.strip_suffix(']').unwrap_or_default();
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    if last.starts_with("0x") || last.bytes().all(|byte| byte.is_ascii_digit()) {
        return host.parse::<Ipv4Addr>().is_ok();
    }
    host.bytes().all(is_of_a_name)
}

fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._".contains(&byte)
}
