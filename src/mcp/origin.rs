//! The request of the gateway on whose stream a message of a server over HTTP came. Messages of a process
//! have none.

tokio::task_local! {
    static ORIGIN: u64;
}

/// Takes messages that come on the stream of a request.
pub(super) async fn of<T>(request: u64, taking: impl Future<Output = T>) -> T {
    ORIGIN.scope(request, taking).await
}

/// Returns the request on whose stream the message came that is being taken.
pub(super) fn request() -> Option<u64> {
    ORIGIN.try_with(|request| *request).ok()
}
