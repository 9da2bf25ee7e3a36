//! The page, from the first connection to the signal that ends it.

use std::io;
use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::access::Gate;
use crate::options::WebOptions;
use crate::site::Site;
use crate::work::Work;
use crate::{follow, router};
use ctxfs_models::http_server;
use ctxfs_models::http_server::Connection;

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
    let answers = |connection: Connection| {
        let router = TowerToHyperService::new(router.clone());
        service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(connection.clone());
            router.call(request)
        })
    };
    tokio::select! {
        () = http_server::serve(&listener, answers) => {}
        () = follow::watch(&site) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    site.catalog.stop();
    site.searches.stop();
    Ok(())
}
