use ccagent_shim::index::{Entry, path_of};
use proptest::prelude::*;

use super::*;

struct Output {
    dir: tempfile::TempDir,
}

impl Output {
    fn of(bytes: &[u8]) -> Self {
        let output = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::write(output.path(), bytes).unwrap();
        output
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("output")
    }

    fn index(&self, entries: &[(u64, u64, Stream)]) {
        let entry = |&(offset, at_ms, stream)| Entry { offset, at_ms, stream }.to_bytes();
        let bytes: Vec<u8> = entries.iter().flat_map(entry).collect();
        std::fs::write(path_of(&self.path()), bytes).unwrap();
    }

    fn read(&self, wanted: Wanted) -> (String, u64) {
        let piece = read(&self.path(), wanted).unwrap();
        let next = piece.next;
        (piece.into_words().0.unwrap(), next)
    }
}

fn from(from: From) -> Wanted {
    Wanted { from, stream: None, max: DEFAULT_BYTES, back: LOOK_BACK, end: u64::MAX, grows: false }
}

/// OF-07: a planted link, and anything else that is no file of ours, is refused and not read.
#[test]
fn a_planted_link_is_refused() {
    let output = Output::of(b"secret");
    let link = output.dir.path().join("link");
    std::os::unix::fs::symlink(output.path(), &link).unwrap();
    for path in [link.as_path(), output.dir.path()] {
        assert_eq!(read(path, from(From::Offset(0))).unwrap_err().kind, Kind::SymlinkRefused);
    }
    assert_eq!(read(&output.dir.path().join("none"), from(From::Offset(7))).unwrap().next, 7);
}

/// OF-04: the last 1000 lines can be had at once.
#[test]
fn the_last_lines_begin_where_they_begin() {
    let lines: Vec<String> = (0..1500).map(|line| format!("{line} {}\n", "x".repeat(200))).collect();
    let lines = lines.concat();
    let (text, next) = Output::of(lines.as_bytes()).read(from(From::LastLines(1000)));
    assert!(text.starts_with("500 "));
    assert_eq!((text.lines().count(), next), (1000, lines.len() as u64));

    let few = Output::of(b"a\nb\nc");
    assert_eq!(few.read(from(From::LastLines(2))).0, "b\nc");
    assert_eq!(few.read(from(From::LastLines(9))).0, "a\nb\nc");
    assert_eq!(few.read(from(From::LastLines(0))), (String::new(), 5));
}

/// OF-04: a line longer than the bound gives its end.
#[test]
fn an_endless_line_gives_its_end() {
    let output = Output::of("ä".repeat(100).as_bytes());
    let wanted = Wanted { max: 5, back: 5, ..from(From::LastLines(1)) };
    assert_eq!(output.read(wanted), ("ää".to_owned(), 200));
}

/// OF-01: a character is not cut while its rest may come, and what is no text comes as base64.
#[test]
fn a_torn_character_waits_for_its_rest() {
    let output = Output::of(b"ab\xc3");
    let wanted = from(From::Offset(0));
    assert_eq!(output.read(Wanted { grows: true, ..wanted }), ("ab".to_owned(), 2));
    let piece = read(&output.path(), wanted).unwrap();
    assert_eq!((piece.next, piece.into_words()), (3, (None, Some("YWLD".to_owned()))));
    // Alone it is given as it is, so that a reader gets on.
    let alone = read(&output.path(), Wanted { from: From::Offset(2), grows: true, ..wanted }).unwrap();
    assert_eq!((alone.next, alone.bytes), (3, vec![0xc3]));
}

/// OF-01: one stream, and what came since a time, are found by the index.
#[test]
fn streams_and_times_are_told_by_the_index() {
    let output = Output::of(b"outERRout2");
    output.index(&[(0, 1_000, Stream::Out), (3, 2_000, Stream::Err), (6, 5_000, Stream::Out)]);
    let stream = |stream| Wanted { stream: Some(stream), ..from(From::Offset(1)) };
    assert_eq!(output.read(stream(OutputStream::Out)), ("utout2".to_owned(), 10));
    assert_eq!(output.read(stream(OutputStream::Err)), ("ERR".to_owned(), 10));
    assert_eq!(output.read(from(From::Since(2_000))).0, "ERRout2");
    assert_eq!(output.read(from(From::Since(9_000))), (String::new(), 10));
}

/// OF-01: one stream is found however much of the other lies before it, and read on from there.
#[test]
fn a_stream_is_found_behind_much_of_the_other() {
    let much = 3 * usize::try_from(DEFAULT_BYTES).unwrap();
    let output =
        Output::of(&[&vec![b'o'; much][..], b"err", &vec![b'o'; much], "\u{e4}".as_bytes()].concat());
    let (err, out, last) = (much as u64, much as u64 + 3, 2 * much as u64 + 3);
    output.index(&[
        (0, 1, Stream::Out),
        (err, 1, Stream::Err),
        (out, 1, Stream::Out),
        (last, 1, Stream::Err),
    ]);
    let wanted = Wanted { stream: Some(OutputStream::Err), max: 4, ..from(From::Offset(0)) };
    assert_eq!(output.read(wanted), ("err".to_owned(), last));
    assert_eq!(output.read(Wanted { from: From::Offset(last), ..wanted }), ("\u{e4}".to_owned(), last + 2));
    let rest = Wanted { stream: Some(OutputStream::Err), max: 9, ..from(From::Offset(err + 1)) };
    assert_eq!(output.read(rest), ("rr\u{e4}".to_owned(), last + 2));
}

/// I8, OF-01: a file that an agent made as long as can be costs a bounded look, and the next one goes on behind it.
#[test]
fn a_look_for_a_stream_is_bounded() {
    let output = Output::of(b"out");
    std::fs::File::options().write(true).open(output.path()).unwrap().set_len(1 << 42).unwrap();
    output.index(&[(0, 1, Stream::Out)]);
    let wanted = Wanted { stream: Some(OutputStream::Err), ..from(From::Offset(3)) };
    let looked = WINDOWS as u64 * WINDOW;
    let piece = read(&output.path(), wanted).unwrap();
    assert_eq!(piece, Piece { bytes: Vec::new(), next: 3 + looked, more: true });
    let piece = read(&output.path(), Wanted { from: From::Offset(piece.next), ..wanted }).unwrap();
    assert_eq!(piece.next, 3 + 2 * looked);
}

/// I8: a piece whose streams change more often than one look goes through is cut, and what is left of it comes next.
#[test]
fn a_piece_of_very_many_streams_is_cut() {
    let many = ccagent_shim::index::WALKED + 9;
    let output = Output::of(&vec![b'x'; usize::try_from(many).unwrap()]);
    let stream = |at| if at % 2 == 0 { Stream::Out } else { Stream::Err };
    output.index(&(0..many).map(|at| (at, 1, stream(at))).collect::<Vec<_>>());
    let mut next = 0;
    while next < many {
        let mut piece = read(&output.path(), from(From::Offset(next))).unwrap();
        let spans = spans(&output.path(), &mut piece).unwrap();
        assert_eq!(spans.iter().map(|span| span.len).sum::<u64>(), piece.bytes.len() as u64);
        assert!(piece.next > next);
        next = piece.next;
    }
}

/// OF-04: the last lines may be long, and with a stream they are that stream's.
#[test]
fn the_last_lines_are_found_far_back() {
    let long = "x".repeat(2 << 20);
    let output = Output::of(format!("a\n{long}\n").as_bytes());
    let (text, next) = output.read(Wanted { max: MAX_BYTES, ..from(From::LastLines(2)) });
    assert_eq!((&text[..2], text.len() as u64, next), ("a\n", (2 << 20) + 3, (2 << 20) + 3));

    let output = Output::of(b"e1\no1\no2\ne2\no3\n");
    let (out, err) = (Stream::Out, Stream::Err);
    output.index(&[(0, 1, err), (3, 1, out), (9, 1, err), (12, 1, out)]);
    let of = |stream, lines| Wanted { stream: Some(stream), ..from(From::LastLines(lines)) };
    assert_eq!(output.read(of(OutputStream::Err, 1)).0, "e2\n");
    assert_eq!(output.read(of(OutputStream::Err, 2)).0, "e1\ne2\n");
    assert_eq!(output.read(of(OutputStream::Out, 2)).0, "o2\no3\n");
}

proptest! {
    /// OF-01: read piece by piece, whatever the size of a piece, all bytes come and come once.
    #[test]
    fn pieces_add_up(text in ".{0,60}", max in 1..9u64) {
        let output = Output::of(text.as_bytes());
        let (mut all, mut offset) = (Vec::new(), 0);
        while offset < text.len() as u64 {
            let piece = read(&output.path(), Wanted { max, grows: true, ..from(From::Offset(offset)) }).unwrap();
            prop_assert!(piece.next > offset);
            offset = piece.next;
            all.extend(piece.bytes);
        }
        prop_assert_eq!(all, text.as_bytes());
    }
}
