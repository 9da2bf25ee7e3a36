//! The address that a server listens on.

use std::net::TcpListener;

use crate::outcome::Failure;

/// The host of an address that has only a port.
const LOOPBACK: &str = "127.0.0.1";

/// Opens the socket at `address`: `HOST:PORT`, `[IPV6]:PORT`, `:PORT` or `PORT`. Returns its host,
/// as it was given, and the socket.
pub(super) fn listen(address: &str) -> Result<(&str, TcpListener), Failure> {
    let (host, port) = split(address)?;
    let listener = TcpListener::bind((host, port)).map_err(|error| {
        let text = format!("cannot listen on `{address}`: {error}");
        Failure::usage(text, "give an address of this machine that is free, such as 127.0.0.1:0")
    })?;
    Ok((host, listener))
}

/// Returns the host and the port of an address.
fn split(address: &str) -> Result<(&str, u16), Failure> {
    let (host, port) = address.rsplit_once(':').unwrap_or(("", address));
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_bare_ipv6 = bare.is_none() && host.contains(':');
    let port = port.parse().ok().filter(|_| !is_bare_ipv6);
    let port = port.ok_or_else(|| {
        let text = format!("`{address}` is no address");
        Failure::usage(text, "give HOST:PORT or PORT, such as 127.0.0.1:8080 or [::1]:8080")
    })?;
    let host = bare.unwrap_or(host);
    Ok((if host.is_empty() { LOOPBACK } else { host }, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_loopback_unless_it_says_otherwise() {
        for (address, expected) in [
            ("8080", ("127.0.0.1", 8080)),
            (":8080", ("127.0.0.1", 8080)),
            ("0.0.0.0:0", ("0.0.0.0", 0)),
            ("[::1]:9", ("::1", 9)),
            ("box.example:80", ("box.example", 80)),
        ] {
            assert_eq!(split(address).unwrap(), expected, "{address}");
        }
        for address in ["", "box", "box:", "::1:80", "127.0.0.1", "127.0.0.1:70000", "1:2:3"] {
            assert!(split(address).is_err(), "{address}");
        }
    }
}
