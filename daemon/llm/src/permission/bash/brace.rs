//! `{a,b}` and `{a..z}`: the words that one word stands for. Not here: `${…}`, which is a value.

use super::word::{FREE, Letter, Word};

/// Words that one word may become.
const MOST_WORDS: usize = 256;
/// Letters of a word in which braces are looked at.
const LONGEST: usize = 4096;

/// The words that a word stands for; where they are too many, one that can't be told is among them.
pub(super) fn expand(word: &Word, room: &mut usize) -> Vec<Word> {
    let Some(first) = find(word) else { return vec![word.clone()] };
    let mut done = Vec::new();
    let mut open = vec![(word.clone(), Some(first))];
    while let Some((word, found)) = open.pop() {
        let Some(found) = found else {
            done.push(word);
            continue;
        };
        if done.len() + open.len() >= MOST_WORDS || word.len() > LONGEST || word.len() * 4 > *room {
            done.push(vec![Letter::Plain(FREE)]);
            done.push(word);
            continue;
        }
        for option in found.options.iter().rev() {
            let made = [&word[..found.from], option.as_slice(), &word[found.to..]].concat();
            *room = room.saturating_sub(made.len());
            let next = find(&made);
            open.push((made, next));
        }
    }
    done
}

/// The first braces of a word that stand for several, and what for.
struct Found {
    from: usize,
    to: usize,
    options: Vec<Word>,
}

fn find(word: &Word) -> Option<Found> {
    let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut best: Option<(usize, usize, Vec<usize>)> = None;
    for (at, letter) in word.iter().enumerate() {
        match letter {
            Letter::Plain('{') => open.push((at, Vec::new())),
            Letter::Plain(',') => {
                if let Some((_, commas)) = open.last_mut() {
                    commas.push(at);
                }
            }
            Letter::Plain('}') => {
                let Some((from, commas)) = open.pop() else { continue };
                let stands = !commas.is_empty() || range(&word[from + 1..at]).is_some();
                if stands && best.as_ref().is_none_or(|(first, ..)| from < *first) {
                    best = Some((from, at, commas));
                }
            }
            Letter::Plain(_) | Letter::Quoted(_) | Letter::Break | Letter::Value(_) => {}
        }
    }
    let (from, to, commas) = best?;
    let options = if commas.is_empty() {
        range(&word[from + 1..to])?
    } else {
        let starts = std::iter::once(from).chain(commas.iter().copied());
        let ends = commas.iter().copied().chain([to]);
        starts.zip(ends).map(|(start, end)| word[start + 1..end].to_vec()).collect()
    };
    Some(Found { from, to: to + 1, options })
}

/// `a..e`, `1..9`, `1..9..2`.
fn range(inside: &[Letter]) -> Option<Vec<Word>> {
    if inside.len() > 32 {
        return None;
    }
    let text: Option<String> = inside
        .iter()
        .map(|letter| match letter {
            Letter::Plain(letter) => Some(*letter),
            Letter::Quoted(_) | Letter::Break | Letter::Value(_) => None,
        })
        .collect();
    let text = text?;
    let (first, rest) = text.split_once("..")?;
    let last = rest.split("..").next()?;
    let word = |text: String| text.chars().map(Letter::Plain).collect::<Word>();
    if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) {
        let numbers = first.min(last)..=first.max(last);
        return Some(numbers.take(MOST_WORDS).map(|number| word(number.to_string())).collect());
    }
    let only = |text: &str| text.chars().next().filter(|letter| text.len() == letter.len_utf8());
    let (first, last) = (only(first)?, only(last)?);
    let letters = first.min(last)..=first.max(last);
    Some(letters.take(MOST_WORDS).map(|letter| vec![Letter::Plain(letter)]).collect())
}
