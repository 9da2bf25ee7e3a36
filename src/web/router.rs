//! The addresses of all pages, and their handlers.

use std::sync::Arc;

use axum::extract::{Path, Query, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use axum::{Router, middleware};
use percent_encoding::percent_decode_str;
use uuid::Uuid;

use crate::access::AccessDecision;
use crate::conversation::ConversationQuery;
use crate::error::WebError;
use crate::front::FrontQuery;
use crate::output::OutputQuery;
use crate::saved::SavedQuery;
use crate::search::SearchQuery;
use crate::site::Site;
use crate::work::{Lane, Sink};
use crate::{access, conversation, events, front, output, raw, saved, search, shell};
use ctxfs_core::model::Component;
use ctxfs_models::http_server::Connection;

const HTML: &str = "text/html; charset=utf-8";
const LINES_OF_JSON: &str = "application/x-ndjson";

type SharedSite = State<Arc<Site>>;

pub(super) fn router(site: Arc<Site>) -> Router {
    let gate = middleware::from_fn_with_state(Arc::clone(&site), admit);
    Router::new()
        .route("/", get(front_page))
        .route("/saved", get(saved_page))
        .route("/c/{id}", get(conversation_page))
        .route("/c/{id}/outputs", get(outputs_page))
        .route("/c/{id}/o/{*path}", get(output_page))
        .route("/c/{id}/raw/{*path}", get(download))
        .route("/c/{id}/image/{*path}", get(image))
        .route("/search/stream", get(search_stream))
        .route("/events", get(event_stream))
        .route(shell::STYLE_ADDRESS, get(|asked: HeaderMap| async move { shell::style(&asked) }))
        .route(shell::SCRIPT_ADDRESS, get(|asked: HeaderMap| async move { shell::script(&asked) }))
        .route("/favicon.ico", get(|| async { StatusCode::NO_CONTENT }))
        .fallback(|| async { WebError::Missing })
        .layer(gate)
        .with_state(site)
}

// Admits or refuses a request, and adds the common headers to the answer.
async fn admit(State(site): SharedSite, request: Request, next: Next) -> Response {
    let entry = site.gate.check(request.method(), request.uri(), request.headers());
    if let (Ok(AccessDecision::Admitted | AccessDecision::LoggedIn { .. }), Some(connection)) =
        (&entry, request.extensions().get::<Connection>())
    {
        connection.admit();
    }
    let mut response = match entry {
        Ok(AccessDecision::Public | AccessDecision::Admitted) => next.run(request).await,
        Ok(AccessDecision::LoggedIn { to, cookie, from_elsewhere }) => {
            log_in(&to, &cookie, from_elsewhere)
        }
        Err(refused) => refused.into_response(),
    };
    access::add_headers(response.headers_mut());
    response
}

fn log_in(to: &str, cookie: &str, from_elsewhere: bool) -> Response {
    let value = |text: &str| HeaderValue::from_str(text).map_err(|_| WebError::Missing);
    let (location, cookie) = match (value(to), value(cookie)) {
        (Ok(location), Ok(cookie)) => (location, cookie),
        (Err(error), _) | (_, Err(error)) => return error.into_response(),
    };
    let cookie = [(header::SET_COOKIE, cookie)];
    if from_elsewhere {
        return (cookie, Html(shell::leading_to(to))).into_response();
    }
    (StatusCode::SEE_OTHER, cookie, [(header::LOCATION, location)]).into_response()
}

async fn front_page(State(site): SharedSite, Query(query): Query<FrontQuery>) -> Response {
    let shared = Arc::clone(&site);
    site.work.send(Lane::Page, HTML, move |sink| front::write(&shared, &query, sink)).await
}

async fn saved_page(State(site): SharedSite, Query(query): Query<SavedQuery>) -> Response {
    let shared = Arc::clone(&site);
    site.work.send(Lane::Page, HTML, move |sink| saved::write(&shared, &query, sink)).await
}

async fn conversation_page(
    State(site): SharedSite,
    Path(id): Path<String>,
    Query(query): Query<ConversationQuery>,
) -> Response {
    let write = move |site: &_, id: &_, sink: &mut _| conversation::write(site, id, &query, sink);
    of_conversation(site, id, HTML, write).await
}

async fn outputs_page(
    State(site): SharedSite,
    Path(id): Path<String>,
    Query(query): Query<ConversationQuery>,
) -> Response {
    let write =
        move |site: &_, id: &_, sink: &mut _| conversation::write_outputs(site, id, &query, sink);
    of_conversation(site, id, HTML, write).await
}

async fn output_page(
    State(site): SharedSite,
    Path((id, path)): Path<(String, String)>,
    Query(query): Query<OutputQuery>,
) -> Response {
    let kind = if query.is_plain() { "text/plain; charset=utf-8" } else { HTML };
    let write = move |site: &_, id: &_, sink: &mut _| output::write(site, id, &path, &query, sink);
    of_conversation(site, id, kind, write).await
}

async fn of_conversation(
    site: Arc<Site>,
    id: String,
    kind: &'static str,
    write: impl FnOnce(&Arc<Site>, &Component, &mut Sink) -> Result<(), WebError> + Send + 'static,
) -> Response {
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
) -> Response {
    match site.conversation(&id) {
        Ok(id) => raw::download(&site, id, path, &headers).await,
        Err(error) => error.into_response(),
    }
}

async fn image(State(site): SharedSite, Path((id, path)): Path<(String, String)>) -> Response {
    match site.conversation(&id) {
        Ok(id) => raw::image(&site, id, path).await,
        Err(error) => error.into_response(),
    }
}

async fn search_stream(State(site): SharedSite, Query(query): Query<SearchQuery>) -> Response {
    let tab = if query.tab.is_empty() { Uuid::new_v4().to_string() } else { query.tab.clone() };
    let turn = match site.searches.turn(&tab).await {
        Ok(turn) => turn,
        Err(error) => return error.into_response(),
    };
    let shared = Arc::clone(&site);
    let write = move |sink: &mut _| {
        let id = shared.conversation(&query.conversation)?;
        search::stream(&shared, &id, &query, &turn, sink)
    };
    site.work.send(Lane::Search, LINES_OF_JSON, write).await
}

async fn event_stream(State(site): SharedSite, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let pairs = query.split('&').filter_map(|pair| pair.strip_prefix("watch="));
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let watched: Vec<String> = pairs.map(decode).collect();
    match events::answer(&site, &watched) {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}
