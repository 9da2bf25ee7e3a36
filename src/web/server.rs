//! Connections: only so many, none that is slow to ask.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::web::access::Gate;
use crate::web::follow;
use crate::web::options::WebOptions;
use crate::web::router;
use crate::web::site::Site;
use crate::web::work::Work;

/// The most connections.
const CONNECTIONS: usize = 512;
/// The time for the head of a request, from the one before on.
const HEAD: Duration = Duration::from_mins(1);
/// The most bytes of the head of a request.
const MOST_HEAD: usize = 64 * 1024;
/// The pause after a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until a signal asks to stop.
pub fn serve(options: WebOptions) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(Work::THREADS)
        .thread_name("ctxfs-page")
        .build()?;
    let served = runtime.block_on(until_stopped(options));
    // Searches that still run stop by themselves; nobody waits for them.
    runtime.shutdown_background();
    served
}

async fn until_stopped(options: WebOptions) -> io::Result<()> {
    let WebOptions { listener, names, token, engine } = options;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let gate = Gate::new(names, &token, listener.local_addr()?.port());
    let site = Site::new(engine, gate);
    site.catalog.start()?;
    let router = router::router(Arc::clone(&site));
    tokio::select! {
        () = accept(&listener, &router) => {}
        () = follow::watch(&site) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    site.catalog.stop();
    site.searches.stop();
    Ok(())
}

async fn accept(listener: &TcpListener, router: &Router) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(converse(stream, router.clone(), permit));
            }
            Err(error) => {
                tracing::warn!("a connection cannot be taken: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Answers the requests of a connection.
async fn converse(stream: TcpStream, router: Router, _room: OwnedSemaphorePermit) {
    // Pieces of pages and events are to arrive at once.
    stream.set_nodelay(true).ok();
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
    builder.max_header_size(MOST_HEAD).max_buf_size(MOST_HEAD);
    let service = TowerToHyperService::new(router);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!("a connection ended: {error}");
    }
}
