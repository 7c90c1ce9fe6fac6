//! Around the work: neither a panic nor waiting for something reaches the container's creation.
use std::any::Any;
use std::io;
use std::panic::{UnwindSafe, catch_unwind};
use std::thread::Builder;
use std::time::Duration;

/// Named, since std would otherwise look into the environment for it.
const STACK: usize = 256 << 10;
/// A line on stderr has at most so many characters.
const LINE_MOST: usize = 1000;

/// Calls `late` after `limit`, unless the program has ended before.
///
/// # Errors
/// What the kernel says where it gives no thread.
pub fn watch(limit: Duration, late: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let wait = move || {
        std::thread::sleep(limit);
        late();
    };
    Builder::new().stack_size(STACK).spawn(wait).map(drop)
}

/// What the work has to say; of work that panics, that.
pub fn catch(work: impl FnOnce() -> Option<String> + UnwindSafe) -> Option<String> {
    catch_unwind(work).unwrap_or_else(|payload| {
        Some(format!("a fault of this program: {}; please report it", message(payload.as_ref())))
    })
}

/// What a panic was called with.
fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

/// The text as one line without control characters, since file names are the image's.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.chars().take(LINE_MOST).map(|char| if char.is_control() { ' ' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_work_says() {
        assert_eq!(catch(|| None), None);
        assert_eq!(catch(|| Some("a".to_owned())), Some("a".to_owned()));
    }

    #[test]
    fn a_panic_is_a_line() {
        let said = catch(|| panic!("odd\nthing {}", 1)).unwrap();
        assert_eq!(one_line(&said), "a fault of this program: odd thing 1; please report it");
    }

    #[test]
    fn waiting_ends() {
        let (sender, receiver) = std::sync::mpsc::channel();
        watch(Duration::from_millis(20), move || sender.send(()).unwrap()).unwrap();
        assert_eq!(receiver.recv_timeout(Duration::from_mins(1)), Ok(()));
    }

    #[test]
    fn lines_are_bounded() {
        assert_eq!(one_line(&"é\r".repeat(LINE_MOST)).chars().count(), LINE_MOST);
    }
}
