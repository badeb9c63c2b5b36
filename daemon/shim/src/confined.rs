//! How a program is started that may write only below some directories.
//!
//! What holds it there is `ccagent-shim confine`, which becomes the program once the kernel has taken the other places
//! away. Deliberately not here: who is confined, and where to.

use std::path::Path;

/// The argv of a program that may write only below these directories; without any, it is what it was.
pub fn argv<D: AsRef<Path>>(shim: &Path, writable: &[D], argv: Vec<String>) -> Vec<String> {
    if writable.is_empty() {
        return argv;
    }
    let mut all = vec![text(shim), "confine".to_owned()];
    all.extend(writable.iter().map(|dir| text(dir.as_ref())));
    all.push("--".to_owned());
    all.extend(argv);
    all
}

/// A path on a command line. One that is no text names nothing there, and the program is not started.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// rpc.md, who is calling: only what has a place to write in is confined, and its own words stay as they are.
    #[test]
    fn an_argv_is_confined_where_there_are_places() {
        let own = || vec!["a".to_owned(), "--".to_owned()];
        let shim = Path::new("/shim");
        assert_eq!(argv::<&str>(shim, &[], own()), own());
        assert_eq!(argv(shim, &["/b", "/c"], own()), ["/shim", "confine", "/b", "/c", "--", "a", "--"]);
    }
}
