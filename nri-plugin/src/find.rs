//! Which container a person means: by id, by the beginning of an id, or as namespace/pod/container.
use crate::book::Book;
use crate::record::Record;

/// How many containers an error lists.
const MOST_LISTED: usize = 20;
/// How much of an id is shown, as `crictl ps` does.
const SHOWN: usize = 13;

/// Why a name means no container.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// None has it.
    #[error(
        "no container with a share is {name:?}; name one by its id, the beginning of its id, or namespace/pod/container. There are: {there}"
    )]
    Unknown {
        /// What was asked.
        name: String,
        /// Those that there are.
        there: String,
    },
    /// Several have it.
    #[error("{name:?} means several containers, give more of the id. They are: {they}")]
    Ambiguous {
        /// What was asked.
        name: String,
        /// Those that it means.
        they: String,
    },
}

/// The one container that `name` means.
///
/// # Errors
/// [`FindError`], with the containers to choose from.
pub fn find<'a>(book: &'a Book, name: &str) -> Result<(&'a str, &'a Record), FindError> {
    if let Some(found) = book.iter().find(|(id, _)| *id == name) {
        return Ok(found);
    }
    let meant = |(id, record): &(&str, &Record)| {
        if name.contains('/') { full_name(record) == name } else { !name.is_empty() && id.starts_with(name) }
    };
    let found: Vec<_> = book.iter().filter(meant).collect();
    match found[..] {
        [one] => Ok(one),
        [] => Err(FindError::Unknown { name: name.to_owned(), there: list(book.iter()) }),
        _ => Err(FindError::Ambiguous { name: name.to_owned(), they: list(found.into_iter()) }),
    }
}

/// Namespace, pod and container.
#[must_use]
pub fn full_name(record: &Record) -> String {
    format!("{}/{}/{}", record.namespace, record.pod, record.container)
}

fn list<'a>(containers: impl Iterator<Item = (&'a str, &'a Record)>) -> String {
    let all: Vec<_> = containers.collect();
    let shown = all.iter().take(MOST_LISTED);
    let one = |(id, record): &(&str, &Record)| {
        format!("{} ({})", full_name(record), id.chars().take(SHOWN).collect::<String>())
    };
    let mut words: Vec<String> = shown.map(one).collect();
    match all.len() {
        0 => words.push("none".to_owned()),
        more if more > MOST_LISTED => words.push(format!("and {} more", more - MOST_LISTED)),
        _ => {}
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_container_or_the_list() {
        let mut book = Book::default();
        assert!(find(&book, "x").unwrap_err().to_string().ends_with("There are: none"));
        for (id, pod) in [("abc1", "p"), ("abd2", "q"), ("abc", "r"), ("e5", "q")] {
            book.book(id, Record::new("ns", pod, "main", true, &[]));
        }
        let id = |name: &str| find(&book, name).map(|(id, _)| id.to_owned()).map_err(|error| error.to_string());
        assert_eq!(id("abc").as_deref(), Ok("abc"), "an id is meant before what begins with it");
        assert_eq!(id("abd").as_deref(), Ok("abd2"));
        assert_eq!(id("ns/p/main").as_deref(), Ok("abc1"));
        let words = id("ab").unwrap_err();
        assert!(words.contains("ns/p/main (abc1), ns/q/main (abd2)") && !words.contains("e5"), "{words}");
        let words = id("ns/q/main").unwrap_err();
        assert!(words.contains("(abd2)") && words.contains("(e5)"), "{words}");
        for name in ["", "x", "ns/p", "s/p/main", "main"] {
            assert!(id(name).unwrap_err().contains("no container"), "{name}");
        }
        for n in 0..30 {
            book.book(&format!("many{n:02}"), Record::new("ns", "m", "main", true, &[]));
        }
        let words = find(&book, "many").unwrap_err().to_string();
        assert!(words.contains("many19") && !words.contains("many20") && words.ends_with("and 10 more"), "{words}");
    }
}
