//! More connections than a server holds.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::{Resource, Rlimit};

/// More connections than a server over HTTP holds.
pub(crate) const CROWD: usize = 520;
/// Descriptors for some crowds at once.
const DESCRIPTORS: u64 = 8192;

/// Opens a crowd of connections that have sent this, and send no more.
pub(crate) fn crowd(address: &str, sent: &str) -> Vec<TcpStream> {
    raise_descriptors();
    let open = |_| {
        let mut stream = TcpStream::connect(address).unwrap();
        // It may have given way already.
        stream.write_all(sent.as_bytes()).ok();
        stream
    };
    (0..CROWD).map(open).collect()
}

/// As [`crowd`], with each connection answered before the next one is opened.
pub(crate) fn answered_crowd(address: &str, sent: &str) -> Vec<TcpStream> {
    raise_descriptors();
    let open = |_| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        stream
    };
    (0..CROWD).map(open).collect()
}

fn raise_descriptors() {
    let Rlimit { current, maximum } = rustix::process::getrlimit(Resource::Nofile);
    let most = maximum.unwrap_or(DESCRIPTORS).min(DESCRIPTORS);
    if current.is_some_and(|current| current < most) {
        let limit = Rlimit { current: Some(most), maximum };
        rustix::process::setrlimit(Resource::Nofile, limit).unwrap();
    }
}

/// Returns true if the server has not ended a connection. Reads what it has sent.
pub(crate) fn is_open(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    loop {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}
