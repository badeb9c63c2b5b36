//! The record codec under arbitrary bytes, for fuzzing: what holds for every value, key and damage.

use super::codec::{self, Head, PART};
use super::error::Damage;

/// A record as bytes of the fuzzer: the first three say how long the key is, how often the value is repeated and where
/// its rows are damaged.
struct Case<'a> {
    key: &'a [u8],
    repeat: usize,
    place: usize,
    value: &'a [u8],
}

/// Checks what must hold for every value and every damage; what does not hold is the error.
pub fn fuzz(bytes: &[u8]) -> Result<(), &'static str> {
    let Some(case) = Case::read(bytes) else { return Ok(()) };
    foreign_rows(&case);
    own_rows(&case)
}

impl<'a> Case<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let ([key, repeat, place], rest) = bytes.split_first_chunk()?;
        let (key, value) = rest.split_at_checked(usize::from(*key))?;
        Some(Self { key, repeat: usize::from(*repeat), place: usize::from(*place), value })
    }
}

/// Rows that no store wrote, or wrote with another meaning: any answer is right.
fn foreign_rows(case: &Case<'_>) {
    let sealed = codec::seal(case.key, u8::try_from(case.place % 4).unwrap_or(0), case.value);
    for record in [case.value, &sealed] {
        let found = [(case.key, record)];
        if let Ok(Head::Split(parts)) = codec::decode_head(case.key, record) {
            drop(codec::join(parts, &found));
        }
        drop(codec::decode_part(case.key, record));
    }
}

/// Rows that a store wrote give the value back, and damaged ones give no other value.
fn own_rows(case: &Case<'_>) -> Result<(), &'static str> {
    let Ok((head, None)) = codec::split_key(case.key) else { return Ok(()) };
    if let Ok((kind, id)) = codec::kind_and_id(head)
        && codec::head_key(kind, id) != head
    {
        return Err("a key is not what its kind and id give");
    }
    let value = case.value.repeat(case.repeat);
    let rows = codec::encode(head, &value);
    if rows.iter().any(|(_, record)| record.len() > PART + codec::FRAME) {
        return Err("a record is longer than a part");
    }
    if read(head, &rows) != Ok(value) {
        return Err("a value did not come back as it was");
    }
    for damaged in damages(case, &rows) {
        if read(head, &damaged).is_ok() {
            return Err("damaged rows gave a value");
        }
    }
    Ok(())
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn read(head: &[u8], rows: &[(Vec<u8>, Vec<u8>)]) -> Result<Vec<u8>, Damage> {
    let ((key, record), parts) = rows.split_first().ok_or(Damage::Joined)?;
    if key != head {
        return Err(Damage::Key);
    }
    match (codec::decode_head(head, record)?, parts.len()) {
        (Head::Whole(value), 0) => Ok(value.to_vec()),
        (Head::Whole(_), _) => Err(Damage::StrayPart(0)),
        (Head::Split(split), _) => codec::join(split, parts),
    }
}

/// One bit turned, a row lost, a row twice, and two rows exchanged.
fn damages(case: &Case<'_>, rows: &Rows) -> Vec<Rows> {
    let at = case.place % rows.len();
    let mut turned = rows.clone();
    let record = &mut turned[at].1;
    let byte = case.place % record.len();
    record[byte] ^= 1 << (case.place % 8);
    let mut lost = rows.clone();
    lost.remove(at);
    let mut twice = rows.clone();
    twice.insert(at, rows[at].clone());
    let mut damaged = vec![turned, lost, twice];
    if rows.len() > 1 {
        let mut exchanged = rows.clone();
        exchanged.swap(at, (at + 1) % rows.len());
        damaged.push(exchanged);
    }
    damaged
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// I6: a record comes back as it was or not at all, whole or in parts.
        #[test]
        fn no_record_is_read_as_another(
            key in "[a-z]{1,9}/[a-z0-9-]{1,20}",
            value in prop::collection::vec(any::<u8>(), 0..200),
            (repeat, place) in any::<(u8, u8)>(),
        ) {
            let mut bytes = vec![u8::try_from(key.len()).unwrap(), repeat, place];
            bytes.extend_from_slice(key.as_bytes());
            bytes.extend_from_slice(&value);
            prop_assert_eq!(fuzz(&bytes), Ok(()));
        }
    }
}
