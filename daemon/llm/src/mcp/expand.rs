//! Variables in what a file says of a server: `${NAME}`, and `${NAME:-DEFAULT}`.

use std::collections::BTreeMap;

/// A text with its variables replaced.
///
/// # Errors
/// A variable that is not set and has no default, or a text that ends in one.
pub(super) fn expand(text: &str, env: &BTreeMap<String, String>) -> Result<String, String> {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, behind)) = rest.split_once("${") {
        out.push_str(before);
        let (inside, after) =
            behind.split_once('}').ok_or_else(|| format!("`${{` without `}}` in {before:?}"))?;
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        match env.get(name).map(String::as_str).filter(|value| !value.is_empty()).or(default) {
            Some(value) => out.push_str(value),
            None => {
                return Err(format!("the variable {name} is not set: set it, or give ${{{name}:-DEFAULT}}"));
            }
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TP-07: a variable has its value or its default; without either the server is not used, and the reason names it.
    #[test]
    fn variables_are_replaced_or_named() {
        let env = BTreeMap::from([("A".to_owned(), "1".to_owned()), ("E".to_owned(), String::new())]);
        assert_eq!(expand("x${A}y${B:-2}${E:-3}$A", &env).unwrap(), "x1y23$A");
        assert!(expand("${B}", &env).unwrap_err().contains("B is not set"));
        assert!(expand("a${A", &env).unwrap_err().contains("without"));
    }
}
