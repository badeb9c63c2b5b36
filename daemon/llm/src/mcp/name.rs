//! Names of tools of servers, as models have them: `mcp__SERVER__TOOL`.

/// Characters of a name at most: what every provider takes.
const MOST: usize = 64;
/// Characters of a hash that tells names apart that had to be cut.
const MARK: usize = 6;

/// A server's name without what would make it another's.
pub fn of_server(name: &str) -> String {
    let mut plain = plain(name);
    while plain.contains("__") {
        plain = plain.replace("__", "_");
    }
    plain.trim_matches('_').to_owned()
}

/// The name under which a model calls a tool.
pub fn full(server: &str, tool: &str) -> String {
    let mut name = format!("mcp__{server}__{}", plain(tool));
    if name.len() > MOST {
        let hash = blake3::hash(format!("{server} {tool}").as_bytes()).to_hex();
        name.truncate(MOST - MARK - 1);
        name.extend(["_", &hash.as_str()[..MARK]]);
    }
    name
}

/// What stands for all tools of a server.
pub fn pattern(server: &str) -> String {
    format!("mcp__{server}__*")
}

/// Only what providers take.
fn plain(name: &str) -> String {
    name.chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TP-07: a name is one that every provider takes, and two that are cut stay two.
    #[test]
    fn names_fit_every_provider_and_stay_apart() {
        assert_eq!(full(&of_server("git.hub"), "issue/list v2"), "mcp__git_hub__issue_list_v2");
        assert_eq!(of_server("_a__b___c_"), "a_b_c");
        let (one, other) = (full("s", &"x".repeat(100)), full("s", &"x".repeat(101)));
        assert!(one.len() == MOST && other.len() == MOST && one != other, "{one} {other}");
        assert!(crate::pool::covers_mcp("mcp__s__*", &one));
    }
}
