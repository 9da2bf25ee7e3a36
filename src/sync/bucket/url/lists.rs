
use futures_util::future::BoxFuture;
use memchr::memmem;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};

///+ Query parameters of list requests: S3 and Google, and Azure.
const REQUESTS: [&str; 2] = ["list-type=2", "comp=list"];
///+ First elements of list responses.
const ANSWERS: [&str; 2] = ["<ListBucketResult", "<EnumerationResults"];
const TRUNCATED: &str = "<IsTruncated>true</IsTruncated>";
const NEXT: &str = "<NextContinuationToken>";

#[derive(Debug, thiserror::Error)]
enum NoList {
    #[error("it answers a request for a list with something else")]
    Other,
    #[error("it answers a request for a list with a page, and not with where the next one begins")]
    NoNext,
}

///+ Connector that fails a list request whose response is no list or a truncated one.
///+
///+ The clients take any XML for an empty list, such as the error page of a proxy. A caller that
///+ believed it would treat all objects as unused.
#[derive(Debug)]
pub(super) struct ListConnector;

#[derive(Debug)]
struct ListClient(HttpClient);

impl HttpConnector for ListConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(ListClient(client)))
    }
}

impl HttpService for ListClient {
    fn call<'service, 'future>(
        &'service self,
        request: HttpRequest,
    ) -> BoxFuture<'future, Result<HttpResponse, HttpError>>
    where
        'service: 'future,
        Self: 'future,
    {
        Box::pin(async move {
            let asks_for_list = is_for_list(&request);
            let response = self.0.execute(request).await?;
            if !asks_for_list || !response.status().is_success() {
                return Ok(response);
            }
            let (parts, body) = response.into_parts();
            let body = body.bytes().await?;
            check(&body).map_err(|error| HttpError::new(HttpErrorKind::Decode, error))?;
            Ok(HttpResponse::from_parts(parts, body.into()))
        })
    }
}

fn is_for_list(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method().as_str() == "GET"
        && query.split('&').any(|parameter| REQUESTS.contains(&parameter))
}

fn check(body: &[u8]) -> Result<(), NoList> {
    let element = first_element(body);
    if !ANSWERS.iter().any(|answer| element.starts_with(answer.as_bytes())) {
        return Err(NoList::Other);
    }
    let has = |part: &str| memmem::find(body, part.as_bytes()).is_some();
    if has(TRUNCATED) && !has(NEXT) { Err(NoList::NoNext) } else { Ok(()) }
}

///+ Returns the document after its XML declaration.
fn first_element(body: &[u8]) -> &[u8] {
    let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body).trim_ascii_start();
    let declared = body.starts_with(b"<?").then(|| memmem::find(body, b"?>")).flatten();
    declared.map_or(body, |end| body[end + 2..].trim_ascii_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_no_list_is_told_from_an_empty_one() {
        let xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
        for list in [
            format!("{xml}\n<ListBucketResult xmlns=\"http://s3\"></ListBucketResult>"),
            "<ListBucketResult/>".to_owned(),
            format!("\u{feff}{xml}<EnumerationResults/>"),
            format!("{xml}<ListBucketResult>{TRUNCATED}{NEXT}x</NextContinuationToken>"),
        ] {
            assert!(check(list.as_bytes()).is_ok(), "{list}");
        }
        for other in [
            "",
            "<html><body>The gateway is busy.</body></html>",
            "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code></Error>",
            "{}",
            "<?xml <ListBucketResult/>",
            &format!("<ListBucketResult>{TRUNCATED}</ListBucketResult>"),
        ] {
            assert!(check(other.as_bytes()).is_err(), "{other}");
        }
    }
}
