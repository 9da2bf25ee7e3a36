//! Serves one client on standard input and output.

use std::io::{self, BufWriter, Write as _};
use std::sync::{Arc, mpsc};
use std::thread;

use tokio::sync::watch;

use crate::from_client;
use crate::line_reader::LineReader;
use crate::manager::stopped;
use crate::queue::{self, Receiver};
use crate::session::{Gateway, GatewaySession, Signals};
use crate::shelf::LazyShelf;

const MAX_FROM_CLIENT: u64 = 64 << 20;

/// Serves the client until its input ends or a signal requests a stop. The returned channel closes
/// when all output is written.
pub(crate) async fn serve(
    gateway: &Gateway,
    shelf: &Arc<LazyShelf>,
) -> io::Result<mpsc::Receiver<()>> {
    let (sender, receiver) = queue::queue();
    let session = GatewaySession::begin(gateway, shelf, sender, None)?;
    let written = start_writer(receiver, Arc::clone(&session.stop))?;
    let ended = until_end(&session, shelf).await;
    session.end().await;
    ended.map(|()| written)
}

async fn until_end(session: &GatewaySession, shelf: &Arc<LazyShelf>) -> io::Result<()> {
    let mut signals = Signals::listen()?;
    let mut stopping = session.stop.subscribe();
    let mut lines = LineReader::new(tokio::io::stdin(), Arc::clone(shelf), MAX_FROM_CLIENT);
    let serving = async {
        while let Some(line) = lines.next(&()).await? {
            from_client::line(&session.relay, line).await;
        }
        Ok(())
    };
    tokio::select! {
        served = serving => served,
        () = signals.any() => Ok(()),
        () = stopped(&mut stopping) => Ok(()),
    }
}

fn start_writer(queue: Receiver, stop: Arc<watch::Sender<bool>>) -> io::Result<mpsc::Receiver<()>> {
    let (done, written) = mpsc::channel();
    let work = move || {
        if let Err(error) = write(queue) {
            tracing::info!("the client is gone: {error}");
        }
        stop.send_replace(true);
        drop(done);
    };
    thread::Builder::new().name("ctxfs-mcp-out".to_owned()).spawn(work)?;
    Ok(written)
}

fn write(mut queue: Receiver) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    while let Some(first) = queue.blocking_recv() {
        let mut next = Some(first);
        while let Some(queued) = next {
            queued.message.write_to(&mut out)?;
            out.write_all(b"\n")?;
            next = queue.try_recv().ok();
        }
        out.flush()?;
    }
    Ok(())
}
