//! Socket addresses: an absolute path, or `uds:` and that path (CD-01).

use std::path::{Path, PathBuf};

/// Takes both forms of a socket address and gives the path.
///
/// # Errors
/// A sentence that says what is wrong with it, when the path is empty or relative.
pub fn path_of(address: &str) -> Result<PathBuf, String> {
    let path = Path::new(address.strip_prefix("uds:").unwrap_or(address));
    if path.is_absolute() {
        Ok(path.to_owned())
    } else {
        Err(format!("{address:?} is no socket address: an absolute path or uds:<absolute path> is"))
    }
}

/// The address form of a path.
pub fn of_path(path: &Path) -> String {
    format!("uds:{}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CD-01, SV-02: both forms name the same socket; a relative path is none.
    #[test]
    fn a_path_and_its_uds_form_are_the_same_address() {
        assert_eq!(path_of("/run/a.sock"), Ok(PathBuf::from("/run/a.sock")));
        assert_eq!(path_of("uds:/run/a.sock"), path_of("/run/a.sock"));
        assert_eq!(of_path(Path::new("/run/a.sock")), "uds:/run/a.sock");
        for bad in ["", "uds:", "a.sock", "uds:a.sock"] {
            assert!(path_of(bad).is_err(), "{bad:?}");
        }
    }
}
