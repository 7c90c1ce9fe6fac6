//! Where metrics and health are served: a unix socket or a port that only this machine reaches. Without either nothing is served.
use crate::app::App;
use crate::control::bind;
use crate::events;
use crate::http::{self, Answer, Asked, Handler, Listener};
use async_trait::async_trait;
use hyper::{Method, StatusCode};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;
use tracing::{error, info};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere.
    Off,
    /// A unix socket, with the owner and mode of the control socket.
    Unix(PathBuf),
    /// A port of a loopback address.
    Tcp(SocketAddr),
}

impl Place {
    /// Reads `off`, `unix:/PATH` or `127.0.0.1:9400`; `None` for anything else, an address that others could reach among it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix("unix:") {
            Some(path) => Some(PathBuf::from(path)).filter(|path| path.is_absolute()).map(Self::Unix),
            None if text == "off" => Some(Self::Off),
            None => text.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback()).map(Self::Tcp),
        }
    }
}

/// Serves until the task is dropped. A place that cannot be had is told in the log: shares are given all the same.
pub async fn run(place: Place, group: Option<u32>, app: Arc<App>) {
    let listener = match &place {
        Place::Off => return,
        Place::Unix(path) => bind(path, group).map(Listener::Unix),
        Place::Tcp(address) => TcpListener::bind(address).await.map(Listener::Tcp),
    };
    match listener {
        Ok(listener) => {
            info!(event = events::METRICS_SERVED, ?place, "metrics are served");
            http::serve(listener, Arc::new(Door(app))).await;
        }
        Err(source) => error!(
            event = events::METRICS_UNAVAILABLE,
            ?place,
            "metrics are not served: {source}; name another place with --metrics"
        ),
    }
}

#[derive(Debug)]
struct Door(Arc<App>);

#[async_trait]
impl Handler for Door {
    async fn answer(&self, asked: Asked) -> Answer {
        match (&asked.method, asked.path.as_str()) {
            (&Method::GET, "/metrics") => {
                Answer { status: StatusCode::OK, kind: OPENMETRICS, body: self.0.metrics().await }
            }
            // Who answers lives.
            (&Method::GET, "/healthz") => Answer::text(StatusCode::OK, "ok\n"),
            (&Method::GET, "/readyz") => match self.0.ready().await {
                Ok(()) => Answer::text(StatusCode::OK, "ok\n"),
                Err(why) => Answer::text(StatusCode::SERVICE_UNAVAILABLE, why + "\n"),
            },
            (&Method::GET, _) => Answer::text(StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz\n"),
            _ => Answer::text(StatusCode::METHOD_NOT_ALLOWED, "nothing can be changed here\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_served() {
        assert_eq!(Place::parse("off"), Some(Place::Off));
        assert_eq!(Place::parse("unix:/run/m.sock"), Some(Place::Unix("/run/m.sock".into())));
        for text in ["127.0.0.1:9400", "127.1.2.3:1", "[::1]:9400"] {
            assert!(matches!(Place::parse(text), Some(Place::Tcp(_))), "{text}");
        }
        for text in [
            "",
            "on",
            "unix:run/m.sock",
            "unix:",
            "0.0.0.0:9400",
            "[::]:9400",
            "10.0.0.1:9400",
            ":9400",
            "9400",
            "localhost:9400",
        ] {
            assert_eq!(Place::parse(text), None, "{text}");
        }
    }
}
