//! The three framings, told by the first bytes of a connection.

/// How a connection's bytes are cut into JSON texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One JSON text a line.
    Ndjson,
    /// `Content-Length` headers before each JSON text.
    ContentLength,
    /// HTTP POST, or a WebSocket.
    Http,
}

/// What the first bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sniff {
    /// The framing is known.
    Known(Framing),
    /// More bytes are needed.
    More,
    /// No framing begins like this.
    Unknown,
}

/// Tells the framing by the first bytes; leading white space is skipped.
pub fn sniff(bytes: &[u8]) -> Sniff {
    let bytes = bytes.trim_ascii_start();
    match bytes {
        // `Content-Length` and the verb CONNECT share their first letter, POST and the preface of HTTP/2 theirs.
        [] | [b'C' | b'P'] | [b'P', b'R'] => Sniff::More,
        [b'P', b'R', b'I', ..] => Sniff::Unknown,
        [b'{' | b'[', ..] => Sniff::Known(Framing::Ndjson),
        [b'C' | b'c', b'o', ..] => Sniff::Known(Framing::ContentLength),
        [b'A'..=b'Z', ..] => Sniff::Known(Framing::Http),
        _ => Sniff::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SV-03: the first bytes choose among the three framings.
    #[test]
    fn first_bytes_choose_the_framing() {
        let cases: &[(&[u8], Sniff)] = &[
            (b"", Sniff::More),
            (b" \n", Sniff::More),
            (b"{", Sniff::Known(Framing::Ndjson)),
            (b"\n[", Sniff::Known(Framing::Ndjson)),
            (b"C", Sniff::More),
            (b"Content-Length: 2", Sniff::Known(Framing::ContentLength)),
            (b"content-length: 2", Sniff::Known(Framing::ContentLength)),
            (b"CONNECT / HTTP/1.1", Sniff::Known(Framing::Http)),
            (b"POST / HTTP/1.1", Sniff::Known(Framing::Http)),
            (b"PR", Sniff::More),
            (b"PROPFIND / HTTP/1.1", Sniff::Known(Framing::Http)),
            (b"PRI * HTTP/2.0", Sniff::Unknown),
            (b"hello", Sniff::Unknown),
            (b"\x16\x03\x01", Sniff::Unknown),
        ];
        for (bytes, expected) in cases {
            assert_eq!(sniff(bytes), *expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }
}
