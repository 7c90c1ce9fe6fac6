//! The log on standard error: text or JSON, with the priorities of syslog before each line where journald reads it. What happens is named in
//! [`crate::events`].
use clap::ValueEnum;
use serde::Deserialize;
use std::ffi::OsStr;
use std::fmt;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{self, FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// How a line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// words and fields, for people
    #[default]
    Text,
    /// one JSON object a line
    Json,
}

/// Starts logging. To be called once.
pub fn start(format: Format) {
    let filter = EnvFilter::try_from_env("GPU_QUOTA_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let journal = is_journal(std::env::var_os("JOURNAL_STREAM").as_deref());
    tracing_subscriber::registry().with(layer(format, journal, std::io::stderr).with_filter(filter)).init();
}

fn layer<W>(format: Format, journal: bool, writer: W) -> Box<dyn Layer<Registry> + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let plain = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer);
    match (format, journal) {
        (Format::Text, false) => plain.boxed(),
        // journald has the time of each line already.
        (Format::Text, true) => {
            plain.event_format(Prioritized(format::format().with_ansi(false).without_time())).boxed()
        }
        (Format::Json, false) => plain.json().flatten_event(true).boxed(),
        (Format::Json, true) => {
            plain.json().event_format(Prioritized(format::json().flatten_event(true).with_current_span(true))).boxed()
        }
    }
}

/// Whether standard error is the stream that systemd names, by device and inode, for a service that it connected to the journal.
fn is_journal(stream: Option<&OsStr>) -> bool {
    let Some((device, inode)) = stream.and_then(OsStr::to_str).and_then(|stream| stream.split_once(':')) else {
        return false;
    };
    rustix::fs::fstat(std::io::stderr())
        .is_ok_and(|about| device.parse() == Ok(about.st_dev) && inode.parse() == Ok(about.st_ino))
}

/// A format behind the priority that journald takes from a line's beginning.
struct Prioritized<F>(F);

impl<S, N, F> FormatEvent<S, N> for Prioritized<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// The priority of a level, as syslog numbers them.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events;
    use std::io;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: Format, journal: bool) -> String {
        let kept = Kept::default();
        let writer = kept.clone();
        let subscriber = tracing_subscriber::registry().with(layer(format, journal, move || writer.clone()));
        tracing::subscriber::with_default(subscriber, || {
            let pod = "p\n<0>forged".to_owned();
            tracing::info_span!("create", pod).in_scope(|| tracing::warn!(event = events::SHARE_GRANTED, "done"));
        });
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_line_has_its_event_and_priority_and_is_one_line() {
        let text = logged(Format::Text, true);
        assert!(text.starts_with("<4> WARN create{pod=") && text.contains(r#"event="share_granted""#), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        let text = logged(Format::Text, false);
        assert!(text.starts_with("20") && text.lines().count() == 1, "{text}");
        for (journal, prefix) in [(false, ""), (true, "<4>")] {
            let text = logged(Format::Json, journal);
            let line: serde_json::Value = serde_json::from_str(text.strip_prefix(prefix).unwrap()).unwrap();
            assert_eq!((&line["event"], &line["level"]), (&"share_granted".into(), &"WARN".into()));
            assert_eq!(line["span"]["pod"], "p\n<0>forged");
        }
    }

    #[test]
    fn the_journal_is_known_by_its_file() {
        let about = rustix::fs::fstat(io::stderr()).unwrap();
        let stream = format!("{}:{}", about.st_dev, about.st_ino);
        assert!(is_journal(Some(OsStr::new(&stream))));
        for other in ["", "1", "1:2", "x:y"] {
            assert!(!is_journal(Some(OsStr::new(other))), "{other}");
        }
        assert!(!is_journal(None));
    }
}
