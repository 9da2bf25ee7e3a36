//! The server: its options, the loop that serves connections until a signal arrives, and the
//! handlers of all addresses.

use std::sync::Arc;
use std::{io, net};

use axum::Router;
use axum::extract::{Path, Query, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::conversation::ConversationQuery;
use crate::front::FrontQuery;
use crate::output::OutputQuery;
use crate::saved::SavedQuery;
use crate::search::SearchQuery;
use crate::{
    AccessDecision, AccessGate, Lane, Result, Sink, Site, WebError, Work, access, conversation,
    events, front, output, raw, saved, search, shell,
};
use ctxfs_core::model::Component;
use ctxfs_engine::Engine;
use ctxfs_models::http_server::{Connection, serve as accept};

/// Serves the page until SIGTERM or SIGINT. Fails if the socket or the threads cannot be set up;
/// requests that fail are answered with an error page.
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
    let router = router(Arc::clone(&site));
    let answers = |connection: Connection| {
        let router = TowerToHyperService::new(router.clone());
        service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(connection.clone());
            router.call(request)
        })
    };
    tokio::select! {
        () = accept(&listener, answers) => {}
        () = events::watch(&site) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    site.catalog.stop();
    site.searches.stop();
    Ok(())
}

/// The socket `listener` that browsers connect to, the `token` that grants access, and the engine,
/// whose options determine which conversations are shown. `names` are host names of this machine
/// that a browser may use, in addition to addresses and `localhost`.
#[derive(Debug)]
#[expect(missing_docs, reason = "described above")]
pub struct WebOptions {
    pub listener: net::TcpListener,
    pub names: Vec<String>,
    pub token: String,
    pub engine: Arc<Engine>,
}

// The number of the only token.
const TOKEN: usize = 0;
const HTML: &str = "text/html; charset=utf-8";
const LINES_OF_JSON: &str = "application/x-ndjson";

type SharedSite = State<Arc<Site>>;

fn router(site: Arc<Site>) -> Router {
    let gate = from_fn_with_state(Arc::clone(&site), admit);
    let assets = shell::ASSETS.iter().fold(Router::new(), |router, asset| {
        let answer = move |asked: HeaderMap| async move { asset.answer(&asked) };
        router.route(asset.address, get(answer))
    });
    assets
        .route("/", get(front_page))
        .route("/saved", get(saved_page))
        .route("/c/{id}", get(conversation_page))
        .route("/c/{id}/outputs", get(outputs_page))
        .route("/c/{id}/o/{*path}", get(output_page))
        .route("/c/{id}/raw/{*path}", get(download))
        .route("/c/{id}/image/{*path}", get(image))
        .route("/search/stream", get(search_stream))
        .route("/events", get(event_stream))
        .route("/favicon.ico", get(|| async { StatusCode::NO_CONTENT }))
        .fallback(|| async { WebError::Missing })
        .layer(gate)
        .with_state(site)
}

// Admits or refuses a request, and adds the common headers to the answer.
async fn admit(State(site): SharedSite, request: Request, next: Next) -> Response {
    let entry = site.gate.check(request.method(), request.uri(), request.headers());
    let connection = request.extensions().get::<Connection>().cloned();
    if let (Ok(AccessDecision::Admitted | AccessDecision::LoggedIn { .. }), Some(connection)) =
        (&entry, connection)
    {
        connection.admit();
        connection.turn(TOKEN).await;
    }
    let mut response = match entry {
        Ok(AccessDecision::Public | AccessDecision::Admitted) => next.run(request).await,
        Ok(AccessDecision::LoggedIn { to, cookie, from_elsewhere }) => {
            log_in(&to, &cookie, from_elsewhere).into_response()
        }
        Err(refused) => refused.into_response(),
    };
    access::add_headers(response.headers_mut());
    response
}

fn log_in(to: &str, cookie: &str, from_elsewhere: bool) -> Result<Response> {
    let value = |text: &str| HeaderValue::from_str(text).map_err(|_| WebError::Missing);
    let (location, cookie) = (value(to)?, [(header::SET_COOKIE, value(cookie)?)]);
    Ok(if from_elsewhere {
        (cookie, Html(shell::leading_to(to))).into_response()
    } else {
        (StatusCode::SEE_OTHER, cookie, [(header::LOCATION, location)]).into_response()
    })
}

async fn front_page(State(site): SharedSite, Query(query): Query<FrontQuery>) -> Result<Response> {
    let shared = Arc::clone(&site);
    site.work.send(Lane::Page, HTML, move |sink| front::write(&shared, &query, sink)).await
}

async fn saved_page(State(site): SharedSite, Query(query): Query<SavedQuery>) -> Result<Response> {
    let shared = Arc::clone(&site);
    site.work.send(Lane::Page, HTML, move |sink| saved::write(&shared, &query, sink)).await
}

async fn conversation_page(
    State(site): SharedSite,
    Path(id): Path<String>,
    Query(query): Query<ConversationQuery>,
) -> Result<Response> {
    let write = move |site: &_, id: &_, sink: &mut _| conversation::write(site, id, &query, sink);
    of_conversation(site, id, HTML, write).await
}

async fn outputs_page(
    State(site): SharedSite,
    Path(id): Path<String>,
    Query(query): Query<ConversationQuery>,
) -> Result<Response> {
    let write =
        move |site: &_, id: &_, sink: &mut _| conversation::write_outputs(site, id, &query, sink);
    of_conversation(site, id, HTML, write).await
}

async fn output_page(
    State(site): SharedSite,
    Path((id, path)): Path<(String, String)>,
    Query(query): Query<OutputQuery>,
) -> Result<Response> {
    let is_text = matches!(&*query.part, "standin" | "errors");
    let kind = if is_text { "text/plain; charset=utf-8" } else { HTML };
    let write = move |site: &_, id: &_, sink: &mut _| output::write(site, id, &path, &query, sink);
    of_conversation(site, id, kind, write).await
}

async fn of_conversation(
    site: Arc<Site>,
    id: String,
    kind: &'static str,
    write: impl FnOnce(&Arc<Site>, &Component, &mut Sink) -> Result<()> + Send + 'static,
) -> Result<Response> {
    let shared = Arc::clone(&site);
    let write = move |sink: &mut _| {
        let id = shared.conversation_anywhere(&id)?;
        write(&shared, &id, sink)
    };
    site.work.send(Lane::Page, kind, write).await
}

async fn download(
    State(site): SharedSite,
    Path((id, path)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response> {
    let id = site.conversation(&id)?;
    raw::download(&site, id, path, &headers).await
}

async fn image(
    State(site): SharedSite,
    Path((id, path)): Path<(String, String)>,
) -> Result<Response> {
    let id = site.conversation(&id)?;
    raw::image(&site, id, path).await
}

async fn search_stream(
    State(site): SharedSite,
    Query(query): Query<SearchQuery>,
) -> Result<Response> {
    let tab =
        if query.tab.is_empty() { uuid::Uuid::new_v4().to_string() } else { query.tab.clone() };
    let turn = site.searches.turn(&tab).await?;
    let shared = Arc::clone(&site);
    let write = move |sink: &mut _| {
        let id = shared.conversation(&query.conversation)?;
        search::stream(&shared, &id, &query, &turn, sink)
    };
    site.work.send(Lane::Search, LINES_OF_JSON, write).await
}

async fn event_stream(State(site): SharedSite, RawQuery(query): RawQuery) -> Result<Response> {
    let query = query.unwrap_or_default();
    let pairs = query.split('&').filter_map(|pair| pair.strip_prefix("watch="));
    let decode =
        |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let watched: Vec<String> = pairs.map(decode).collect();
    events::answer(&site, &watched)
}
