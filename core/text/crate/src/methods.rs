// SPDX-License-Identifier: Apache-2.0
//! Methods of Python's str that the engine's own compatibility layer lacks or
//! implements with Rust's definition of white space.

use minijinja::value::{from_args, Kwargs, Tuple};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

use crate::python::is_space;

/// For `Environment::set_unknown_method_callback`.
pub fn unknown_method(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        if let Some(result) = string_method(text, method, args) {
            return result;
        }
    }
    pycompat::unknown_method_callback(state, value, method, args)
}

type Method = fn(&str, &[Value]) -> Result<Value, Error>;

fn string_method(text: &str, method: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    let function: Method = match method {
        "strip" => |text, args| strip(text, args, true, true),
        "lstrip" => |text, args| strip(text, args, true, false),
        "rstrip" => |text, args| strip(text, args, false, true),
        "isspace" => |text, _| Ok(Value::from(!text.is_empty() && text.chars().all(is_space))),
        "split" => |text, args| split(text, args, false),
        "rsplit" => |text, args| split(text, args, true),
        "splitlines" => split_lines,
        "partition" => |text, args| partition(text, args, false),
        "rpartition" => |text, args| partition(text, args, true),
        "removeprefix" => remove_prefix,
        "removesuffix" => remove_suffix,
        "index" => |text, args| index(args, |part| text.find(part), text),
        "rindex" => |text, args| index(args, |part| text.rfind(part), text),
        "ljust" => |text, args| pad(text, args, |_, _| 0),
        "rjust" => |text, args| pad(text, args, |missing, _| missing),
        // If the width is odd, CPython puts the odd space at the left.
        "center" => |text, args| {
            pad(text, args, |missing, width| {
                missing / 2 + (missing & width & 1)
            })
        },
        "zfill" => zfill,
        _ => return None,
    };
    Some(function(text, args))
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn strip(text: &str, args: &[Value], left: bool, right: bool) -> Result<Value, Error> {
    let (chars,): (Option<Value>,) = from_args(args)?;
    let chars = chars.filter(|c| !c.is_none());
    let chars = chars.as_ref().and_then(|c| c.as_str());
    Ok(Value::from(strip_str(text, chars, left, right)))
}

/// `str.strip(chars)`; strips white space without `chars`.
pub fn strip_str<'a>(text: &'a str, chars: Option<&str>, left: bool, right: bool) -> &'a str {
    let matches = |c: char| chars.map_or_else(|| is_space(c), |set| set.contains(c));
    let text = if left {
        text.trim_start_matches(matches)
    } else {
        text
    };
    if right {
        text.trim_end_matches(matches)
    } else {
        text
    }
}

/// `str.split(sep=None, maxsplit=-1)` and, `from_right`, `str.rsplit`.
fn split(text: &str, args: &[Value], from_right: bool) -> Result<Value, Error> {
    let (args, kwargs): (&[Value], Kwargs) = from_args(args)?;
    let argument = |position: usize, name: &str| -> Result<Option<Value>, Error> {
        let value = match args.get(position) {
            Some(value) => Some(value.clone()),
            None => kwargs.get(name)?,
        };
        Ok(value.filter(|v| !v.is_none()))
    };
    let separator = argument(0, "sep")?;
    let limit = match argument(1, "maxsplit")? {
        Some(limit) => usize::try_from(i64::try_from(limit)?).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    kwargs.assert_all_used()?;
    let mut parts = match &separator {
        None => split_space(text, limit, from_right),
        Some(separator) => {
            let separator = separator
                .as_str()
                .ok_or(invalid("split: a string expected"))?;
            if separator.is_empty() {
                return Err(invalid("split: empty separator"));
            }
            let pieces = limit.saturating_add(1);
            match from_right {
                false => text.splitn(pieces, separator).collect::<Vec<_>>(),
                true => text.rsplitn(pieces, separator).collect(),
            }
        }
    };
    if from_right {
        parts.reverse();
    }
    Ok(parts.into_iter().map(Value::from).collect())
}

/// Splits at runs of white space and drops white space at the ends; after
/// `limit` splits the rest stays whole. Parts come in the order found.
fn split_space(text: &str, limit: usize, from_right: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = strip_str(text, None, !from_right, from_right);
    while !rest.is_empty() {
        let cut = match from_right {
            _ if parts.len() == limit => None,
            false => rest.find(is_space),
            true => rest
                .char_indices()
                .rfind(|&(_, c)| is_space(c))
                .map(|(i, c)| i + c.len_utf8()),
        };
        let Some(cut) = cut else {
            parts.push(rest);
            break;
        };
        let (left, right) = rest.split_at(cut);
        parts.push(if from_right { right } else { left });
        rest = match from_right {
            false => strip_str(right, None, true, false),
            true => strip_str(left, None, false, true),
        };
    }
    parts
}

fn partition(text: &str, args: &[Value], from_right: bool) -> Result<Value, Error> {
    let (part,): (&str,) = from_args(args)?;
    if part.is_empty() {
        return Err(invalid("partition: empty separator"));
    }
    let at = if from_right {
        text.rfind(part)
    } else {
        text.find(part)
    };
    let pieces = match (at, from_right) {
        (Some(at), _) => [&text[..at], part, &text[at + part.len()..]],
        (None, false) => [text, "", ""],
        (None, true) => ["", "", text],
    };
    Ok(Value::from(Tuple::from(pieces.map(Value::from).to_vec())))
}

fn remove_prefix(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (part,): (&str,) = from_args(args)?;
    Ok(Value::from(text.strip_prefix(part).unwrap_or(text)))
}

fn remove_suffix(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (part,): (&str,) = from_args(args)?;
    Ok(Value::from(text.strip_suffix(part).unwrap_or(text)))
}

fn index(args: &[Value], find: impl Fn(&str) -> Option<usize>, text: &str) -> Result<Value, Error> {
    let (part,): (&str,) = from_args(args)?;
    let at = find(part).ok_or(invalid("substring not found"))?;
    Ok(Value::from(text[..at].chars().count()))
}

/// Pads to a width; `left(missing, width)` of the fill characters go to the
/// left.
fn pad(text: &str, args: &[Value], left: impl Fn(usize, usize) -> usize) -> Result<Value, Error> {
    let (width, fill): (usize, Option<&str>) = from_args(args)?;
    let missing = width.saturating_sub(text.chars().count()).min(1 << 20);
    let left = left(missing, width);
    let fill = fill.unwrap_or(" ");
    Ok(Value::from(format!(
        "{}{text}{}",
        fill.repeat(left),
        fill.repeat(missing - left)
    )))
}

fn zfill(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (width,): (usize,) = from_args(args)?;
    let missing = width.saturating_sub(text.chars().count()).min(1 << 20);
    let sign = usize::from(text.starts_with(['+', '-']));
    let (sign, digits) = text.split_at(sign);
    Ok(Value::from(format!(
        "{sign}{}{digits}",
        "0".repeat(missing)
    )))
}

/// `str.splitlines(keepends=False)`: every line boundary that Python knows.
fn split_lines(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (keep,): (Option<bool>,) = from_args(args)?;
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_line_end).unwrap_or(rest.len());
        let mark = match &rest[end..] {
            tail if tail.starts_with("\r\n") => 2,
            tail => tail.chars().next().map_or(0, char::len_utf8),
        };
        let kept = if keep.unwrap_or(false) {
            end + mark
        } else {
            end
        };
        lines.push(Value::from(&rest[..kept]));
        rest = &rest[end + mark..];
    }
    Ok(Value::from(lines))
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}
