// SPDX-License-Identifier: Apache-2.0
//! `{% generation %} … {% endgeneration %}`, the tag that marks the assistant's
//! text in Transformers' templates, rewritten as statements that the engine
//! knows: a captured block in its own scope, passed to a function.
//! Transformers' extension makes it a call block; the engine's call blocks
//! would see stale variables in loops, and would not see variables that are
//! only assigned to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use minijinja::value::{from_args, Object, Value};
use minijinja::{Error, State};

/// The variable that contains the `Tracker` of a rendering.
pub const TRACKER: &str = "__mpsd_generation";
const BODY: &str = "__mpsd_body";

/// Rewrites the tags, keeping lines and white space control. The flag says
/// whether `source` has any.
pub fn rewrite(source: &str) -> (String, bool) {
    let mut out = String::with_capacity(source.len() + 64);
    let mut found = false;
    let mut rest = source;
    while let Some(at) = next_tag(rest) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let len = tag_len(rest);
        let tag = &rest[..len];
        match replacement(tag) {
            Some(new) => {
                found = true;
                out.push_str(&new);
            }
            None => out.push_str(tag),
        }
        rest = &rest[len..];
    }
    out.push_str(rest);
    (out, found)
}

fn next_tag(source: &str) -> Option<usize> {
    let bytes = source.as_bytes();
    (0..bytes.len().saturating_sub(1))
        .find(|&i| bytes[i] == b'{' && matches!(bytes[i + 1], b'{' | b'%' | b'#'))
}

/// The length of the tag at the beginning of `source`; a raw block is one tag.
/// If the tag does not end, which the engine reports, the length of all of
/// `source`.
fn tag_len(source: &str) -> usize {
    match source.as_bytes()[1] {
        b'#' => source.find("#}").map_or(source.len(), |i| i + 2),
        b'{' => code_len(source, "}}"),
        _ => {
            let len = code_len(source, "%}");
            if inner(&source[..len]).is_some_and(|(_, word, _)| word == "raw") {
                raw_len(source, len)
            } else {
                len
            }
        }
    }
}

/// The end of a tag whose strings and brackets may contain its closing mark.
fn code_len(source: &str, close: &str) -> usize {
    let bytes = source.as_bytes();
    let mut depth = 0usize;
    let mut i = 2;
    while i < bytes.len() {
        if depth == 0 && source.as_bytes()[i..].starts_with(close.as_bytes()) {
            return i + close.len();
        }
        match bytes[i] {
            quote @ (b'"' | b'\'') => i = string_end(bytes, i, quote),
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        i += 1;
    }
    bytes.len()
}

fn string_end(bytes: &[u8], begin: usize, quote: u8) -> usize {
    let mut i = begin + 1;
    while i < bytes.len() && bytes[i] != quote {
        i += if bytes[i] == b'\\' { 2 } else { 1 };
    }
    i
}

fn raw_len(source: &str, mut at: usize) -> usize {
    while let Some(next) = source[at..].find("{%") {
        at += next;
        let len = source[at..].find("%}").map_or(source.len() - at, |i| i + 2);
        if inner(&source[at..at + len]).is_some_and(|(_, w, _)| w == "endraw") {
            return at + len;
        }
        at += 2;
    }
    source.len()
}

/// The parts of a statement tag: white space mark, words, white space mark.
fn inner(tag: &str) -> Option<(&str, &str, &str)> {
    let body = tag.strip_prefix("{%")?.strip_suffix("%}")?;
    let left = if body.starts_with(['-', '+']) { 1 } else { 0 };
    let body_after = &body[left..];
    let right = if body_after.ends_with(['-', '+']) {
        1
    } else {
        0
    };
    let words = &body_after[..body_after.len() - right];
    Some((&body[..left], words.trim(), &body_after[words.len()..]))
}

fn replacement(tag: &str) -> Option<String> {
    let (left, word, right) = inner(tag)?;
    let lines = "\n".repeat(tag.matches('\n').count());
    match word {
        "generation" => Some(format!(
            "{{%{left} with{lines} %}}{{% set {BODY} {right}%}}"
        )),
        "endgeneration" => Some(format!(
            "{{%{left} endset{lines} %}}{{{{ {TRACKER}({BODY}) }}}}{{% endwith {right}%}}"
        )),
        _ => None,
    }
}

/// Records the ranges of one rendering, in characters of the output.
#[derive(Debug, Default)]
pub struct Tracker {
    /// The characters that have reached the output so far.
    pub written: Arc<AtomicUsize>,
    pub ranges: Mutex<Vec<(usize, usize)>>,
}

impl Object for Tracker {
    // Equal to Transformers' _generation_support, even where "so far" is
    // surprising: inside a macro or a set block nothing has been written yet.
    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let (body,): (Value,) = from_args(args)?;
        let begin = self.written.load(Ordering::Relaxed);
        let end = begin + body.as_str().unwrap_or("").chars().count();
        self.ranges.lock().unwrap().push((begin, end));
        Ok(body)
    }
}
