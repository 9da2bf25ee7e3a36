//! Runs the server from the first connection until a signal ends it.

use std::sync::Arc;
use std::{io, net};

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::access::AccessGate;
use crate::site::Site;
use crate::work::Work;
use crate::{events, router};
use ctxfs_engine::Engine;
use ctxfs_models::http_server;
use ctxfs_models::http_server::Connection;

/// Serves the page until SIGTERM or SIGINT. Searches that are still running stop by themselves.
pub fn serve(options: WebOptions) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(Work::THREADS)
        .thread_name("ctxfs-page")
        .build()?;
    let served = runtime.block_on(until_stopped(options));
    // Running searches stop by themselves.
    runtime.shutdown_background();
    served
}

async fn until_stopped(options: WebOptions) -> io::Result<()> {
    let WebOptions { listener, names, token, engine } = options;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let gate = AccessGate::new(names, &token, listener.local_addr()?.port());
    let site = Site::new(engine, gate);
    site.catalog.start()?;
    let router = router::router(Arc::clone(&site));
    let answers = |connection: Connection| {
        let router = TowerToHyperService::new(router.clone());
        service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(connection.clone());
            router.call(request)
        })
    };
    tokio::select! {
        () = http_server::serve(&listener, answers) => {}
        () = events::watch(&site) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    site.catalog.stop();
    site.searches.stop();
    Ok(())
}

/// The socket, the token and the engine of the web page.
#[derive(Debug)]
pub struct WebOptions {
    /// The socket that browsers connect to.
    pub listener: net::TcpListener,
    /// Host names of this machine that a browser may use, in addition to addresses and `localhost`.
    pub names: Vec<String>,
    /// The token that grants access.
    pub token: String,
    /// The engine. Its options determine which conversations are shown.
    pub engine: Arc<Engine>,
}
