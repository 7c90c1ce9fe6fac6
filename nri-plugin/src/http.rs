//! HTTP/1 on the daemon's own sockets, for few and small requests: one request a connection, bounded in size, time and number. What the requests mean is
//! not known here.
use async_trait::async_trait;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::Semaphore;

/// The longest body of a request.
const MOST_BODY: usize = 64 << 10;
/// The longest body of an answer that [`ask`] reads: the status of some ten thousand containers.
const MOST_ANSWER: usize = 64 << 20;
/// How long a connection may last: a peer that does not read or write must not hold one for ever.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many connections of a socket are served at one time; the next ones wait.
const CONNECTIONS: usize = 16;

/// Where requests come in.
#[derive(Debug)]
pub enum Listener {
    /// A unix socket.
    Unix(UnixListener),
    /// A TCP port.
    Tcp(TcpListener),
}

/// A request.
#[derive(Debug)]
pub struct Asked {
    /// Its method.
    pub method: Method,
    /// Its path, without the query.
    pub path: String,
    /// Its body.
    pub body: Bytes,
    /// The user of the peer's process, by the kernel; `None` over TCP.
    pub uid: Option<u32>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// What the body is.
    pub kind: &'static str,
    /// The body.
    pub body: String,
}

impl Answer {
    /// An answer of JSON.
    #[must_use]
    pub fn json(status: StatusCode, body: &impl serde::Serialize) -> Self {
        match serde_json::to_string(body) {
            Ok(body) => Self { status, kind: "application/json", body },
            Err(error) => Self::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }

    /// An answer of plain text.
    #[must_use]
    pub fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: body.into() }
    }
}

/// What answers.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Answers one request.
    async fn answer(&self, asked: Asked) -> Answer;
}

/// Serves until the task is dropped.
pub async fn serve<H: Handler>(listener: Listener, handler: Arc<H>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let accepted = match &listener {
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                let uid = stream.peer_cred().ok().map(|peer| peer.uid());
                one(stream, uid, &handler, place);
            }),
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| one(stream, None, &handler, place)),
        };
        if accepted.is_err() {
            // No descriptor is free, or the peer is gone again; a busy loop would help neither.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Serves one connection in a task of its own.
fn one<H: Handler>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    uid: Option<u32>,
    handler: &Arc<H>,
    place: tokio::sync::OwnedSemaphorePermit,
) {
    let handler = Arc::clone(handler);
    tokio::spawn(async move {
        let service = service_fn(move |request| respond(request, uid, Arc::clone(&handler)));
        let connection = hyper::server::conn::http1::Builder::new()
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        // A peer that breaks off or speaks no HTTP is its own affair.
        let _ = tokio::time::timeout(PATIENCE, connection).await;
        drop(place);
    });
}

async fn respond<H: Handler>(
    request: Request<Incoming>,
    uid: Option<u32>,
    handler: Arc<H>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let answer = match Limited::new(body, MOST_BODY).collect().await {
        Ok(body) => {
            let path = head.uri.path().to_owned();
            handler.answer(Asked { method: head.method, path, body: body.to_bytes(), uid }).await
        }
        Err(error) => Answer::text(StatusCode::BAD_REQUEST, format!("the request's body cannot be read: {error}")),
    };
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = answer.status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(answer.kind));
    Ok(response)
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens at the socket.
    #[error("{0}")]
    Connect(#[from] std::io::Error),
    /// The connection broke off.
    #[error("{0}")]
    Http(#[from] hyper::Error),
    /// The request cannot be said in HTTP.
    #[error("{0}")]
    Request(#[from] hyper::http::Error),
    /// The answer is too long or broke off.
    #[error("the answer cannot be read: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    /// There was no answer in time.
    #[error("no answer in {} seconds", PATIENCE.as_secs())]
    Slow,
}

/// Asks at a unix socket.
///
/// # Errors
/// [`AskError`]; an answer that says no is none.
pub async fn ask(socket: &Path, method: Method, path: &str, body: Vec<u8>) -> Result<(StatusCode, Bytes), AskError> {
    let exchange = async {
        let stream = UnixStream::connect(socket).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "gpu-quota")
            .body(Full::new(Bytes::from(body)))?;
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, MOST_ANSWER).collect().await.map_err(AskError::Body)?.to_bytes();
        connection.abort();
        Ok((head.status, body))
    };
    tokio::time::timeout(PATIENCE, exchange).await.map_err(|_| AskError::Slow)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    struct Echo;

    #[async_trait]
    impl Handler for Echo {
        async fn answer(&self, asked: Asked) -> Answer {
            Answer::text(
                StatusCode::OK,
                format!("{} {} {} {:?}", asked.method, asked.path, asked.body.len(), asked.uid),
            )
        }
    }

    #[tokio::test]
    async fn a_request_is_told_with_its_peer_and_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let listener = Listener::Unix(UnixListener::bind(&socket).unwrap());
        let server = tokio::spawn(serve(listener, Arc::new(Echo)));
        let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(dir.path()).unwrap());
        let (status, body) = ask(&socket, Method::PUT, "/a?b", b"xyz".to_vec()).await.unwrap();
        assert_eq!((status, body), (StatusCode::OK, Bytes::from(format!("PUT /a 3 Some({uid})"))));
        let (status, _) = ask(&socket, Method::PUT, "/a", vec![0; MOST_BODY + 1]).await.unwrap();
        assert_eq!(status, StatusCode::BAD_REQUEST);

        // Who speaks something else is answered or cut off, and others are served.
        let mut noise = UnixStream::connect(&socket).await.unwrap();
        noise.write_all(b"\x16\x03\x01 nonsense\r\n\r\n").await.unwrap();
        let mut said = Vec::new();
        noise.read_to_end(&mut said).await.unwrap();
        assert!(ask(&socket, Method::GET, "/", Vec::new()).await.is_ok());
        server.abort();
        let _ = server.await;
        assert!(matches!(ask(&dir.path().join("none"), Method::GET, "/", Vec::new()).await, Err(AskError::Connect(_))));
    }
}
