//! How a record stands in the tree: keys, versions, checksums, and values cut into parts.
//!
//! ```text
//! <kind>/<id>              version 1, layout 0, value,                           crc32    value up to 3 KiB
//! <kind>/<id>              version 1, layout 1, parts u32, length u64, crc u32,  crc32    a longer value, and
//! <kind>/<id> 0 <u32 BE>   version 1, layout 2, up to 3 KiB of it,               crc32    its parts behind it
//! ```
//!
//! Numbers in records are little-endian. The last four bytes are a CRC-32 over key and record, so that a record
//! which turns up under another key is refused too. Nothing longer goes into the engine because from some size on
//! it puts values into files of their own, which it never syncs.
//! The content of a value is none of this module's business.

use super::error::Damage;

/// The most bytes of a value in one record of the tree.
pub(super) const PART: usize = 3 * 1024;

const VERSION: u8 = 1;
const WHOLE: u8 = 0;
const SPLIT: u8 = 1;
const PIECE: u8 = 2;
/// Bytes of a record around its content.
pub(super) const FRAME: usize = 2 + 4;

/// The record under a value's own key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head<'a> {
    /// The value itself.
    Whole(&'a [u8]),
    /// The value stands in parts behind the key.
    Split(Parts),
}

/// What the head of a split value says about its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) count: u32,
    pub(super) length: u64,
    pub(super) crc: u32,
}

pub(super) fn head_key(kind: &str, id: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(kind.len() + id.len() + 1);
    key.extend_from_slice(kind.as_bytes());
    key.push(b'/');
    key.extend_from_slice(id.as_bytes());
    key
}

pub(super) fn part_key(head: &[u8], number: u32) -> Vec<u8> {
    let mut key = Vec::with_capacity(head.len() + 5);
    key.extend_from_slice(head);
    key.push(0);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Splits a key of the tree into the value's own key and, for a part, its number.
pub(super) fn split_key(key: &[u8]) -> Result<(&[u8], Option<u32>), Damage> {
    let Some(end) = key.iter().position(|byte| *byte == 0) else {
        return Ok((key, None));
    };
    let number = key[end + 1..].try_into().map_err(|_| Damage::Key)?;
    Ok((&key[..end], Some(u32::from_be_bytes(number))))
}

/// Splits a value's own key into kind and id.
pub(super) fn kind_and_id(head: &[u8]) -> Result<(&str, &str), Damage> {
    let text = std::str::from_utf8(head).map_err(|_| Damage::Key)?;
    text.split_once('/').ok_or(Damage::Key)
}

/// All records that a value needs, its head first.
pub(super) fn encode(head: &[u8], value: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    if value.len() <= PART {
        return vec![(head.to_vec(), seal(head, WHOLE, value))];
    }
    let mut rows = Vec::with_capacity(value.len() / PART + 2);
    let mut count = 0_u32;
    rows.push((head.to_vec(), Vec::new()));
    for piece in value.chunks(PART) {
        let key = part_key(head, count);
        let record = seal(&key, PIECE, piece);
        rows.push((key, record));
        count += 1;
    }
    let mut parts = Vec::with_capacity(16);
    parts.extend_from_slice(&count.to_le_bytes());
    parts.extend_from_slice(&(value.len() as u64).to_le_bytes());
    parts.extend_from_slice(&crc32fast::hash(value).to_le_bytes());
    rows[0].1 = seal(head, SPLIT, &parts);
    rows
}

pub(super) fn decode_head<'a>(key: &[u8], record: &'a [u8]) -> Result<Head<'a>, Damage> {
    match open(key, record)? {
        (WHOLE, value) => Ok(Head::Whole(value)),
        (SPLIT, parts) => decode_parts(parts).map(Head::Split),
        (layout, _) => Err(Damage::Layout(layout)),
    }
}

pub(super) fn decode_part<'a>(key: &[u8], record: &'a [u8]) -> Result<&'a [u8], Damage> {
    match open(key, record)? {
        (PIECE, piece) => Ok(piece),
        (layout, _) => Err(Damage::Layout(layout)),
    }
}

/// Puts the parts of a value together, which come with their keys and in order.
pub(super) fn join<K, V>(parts: Parts, found: &[(K, V)]) -> Result<Vec<u8>, Damage>
where
    K: AsRef<[u8]>,
    V: AsRef<[u8]>,
{
    let mut value = Vec::with_capacity(found.len() * PART);
    for (wanted, (key, record)) in (0..).zip(found) {
        if split_key(key.as_ref())?.1 != Some(wanted) {
            return Err(Damage::MissingPart(wanted));
        }
        value.extend_from_slice(decode_part(key.as_ref(), record.as_ref())?);
    }
    let have = u32::try_from(found.len()).map_err(|_| Damage::Joined)?;
    if have < parts.count {
        return Err(Damage::MissingPart(have));
    }
    if have > parts.count {
        return Err(Damage::StrayPart(parts.count));
    }
    let whole = value.len() as u64 == parts.length && crc32fast::hash(&value) == parts.crc;
    whole.then_some(value).ok_or(Damage::Joined)
}

fn decode_parts(bytes: &[u8]) -> Result<Parts, Damage> {
    let (count, rest) = bytes.split_first_chunk().ok_or(Damage::Short(bytes.len()))?;
    let (length, rest) = rest.split_first_chunk().ok_or(Damage::Short(bytes.len()))?;
    let crc = rest.try_into().map_err(|_| Damage::Short(bytes.len()))?;
    Ok(Parts {
        count: u32::from_le_bytes(*count),
        length: u64::from_le_bytes(*length),
        crc: u32::from_le_bytes(crc),
    })
}

pub(super) fn seal(key: &[u8], layout: u8, content: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(content.len() + FRAME);
    record.extend_from_slice(&[VERSION, layout]);
    record.extend_from_slice(content);
    let crc = checksum(key, &record);
    record.extend_from_slice(&crc.to_le_bytes());
    record
}

/// Checks a record and takes it apart into layout and content.
fn open<'a>(key: &[u8], record: &'a [u8]) -> Result<(u8, &'a [u8]), Damage> {
    let (body, crc) = record.split_last_chunk().ok_or(Damage::Short(record.len()))?;
    let [version, layout, content @ ..] = body else {
        return Err(Damage::Short(record.len()));
    };
    if checksum(key, body) != u32::from_le_bytes(*crc) {
        return Err(Damage::Checksum);
    }
    // Only a record that is whole can be said to come from another version.
    if *version != VERSION {
        return Err(Damage::Version(*version));
    }
    Ok((*layout, content))
}

fn checksum(key: &[u8], body: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(key);
    crc.update(body);
    crc.finalize()
}
