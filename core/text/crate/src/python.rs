// SPDX-License-Identifier: Apache-2.0
//! Python's spelling of values and its definition of white space.

use std::fmt::Write;

use minijinja::value::ValueKind;
use minijinja::Value;

/// `str(value)`.
pub fn str(value: &Value) -> String {
    match value.kind() {
        ValueKind::String => value.as_str().unwrap_or("").to_string(),
        ValueKind::Undefined => String::new(),
        _ => repr(value),
    }
}

/// `repr(value)`.
pub fn repr(value: &Value) -> String {
    match value.kind() {
        ValueKind::Number if !value.is_integer() => {
            f64::try_from(value.clone()).map_or_else(|_| value.to_string(), float)
        }
        ValueKind::String => quoted(value.as_str().unwrap_or("")),
        ValueKind::Undefined => "Undefined".to_string(),
        ValueKind::Seq => list(value),
        ValueKind::Map if value.try_iter().is_ok() => dict(value),
        _ => format!("{value:?}"),
    }
}

fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut out = String::from(quote);
    for c in text.chars() {
        let code = u32::from(c);
        let _ = match c {
            '\\' => write!(out, "\\\\"),
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            c if c == quote => write!(out, "\\{c}"),
            c if is_printable(c) => write!(out, "{c}"),
            _ if code < 0x100 => write!(out, "\\x{code:02x}"),
            _ if code < 0x10000 => write!(out, "\\u{code:04x}"),
            _ => write!(out, "\\U{code:08x}"),
        };
    }
    out.push(quote);
    out
}

/// `str.isprintable` of one character. Rust's debug format escapes the same
/// characters, except spaces; it escapes combining marks only at the start of a
/// string.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    let shown: String = ['a', c].iter().collect();
    !c.is_whitespace() && !shown.escape_debug().any(|d| d == '\\')
}

fn list(value: &Value) -> String {
    let items: Vec<String> = value
        .try_iter()
        .map(|i| i.map(|v| repr(&v)).collect())
        .unwrap_or_default();
    let inside = items.join(", ");
    match (value.is_tuple(), items.len()) {
        (true, 1) => format!("({inside},)"),
        (true, _) => format!("({inside})"),
        _ => format!("[{inside}]"),
    }
}

fn dict(value: &Value) -> String {
    let mut out = String::from("{");
    for (i, key) in value.try_iter().into_iter().flatten().enumerate() {
        let item = value.get_item(&key).unwrap_or_default();
        let comma = if i > 0 { ", " } else { "" };
        let _ = write!(out, "{comma}{}: {}", repr(&key), repr(&item));
    }
    out.push('}');
    out
}

/// `repr` of a float: the shortest digits that read back the same, with an
/// exponent outside [1e-4, 1e16).
pub fn float(x: f64) -> String {
    if x.is_nan() {
        return "nan".to_string();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    let scientific = format!("{x:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{x}");
        return if plain.contains('.') {
            plain
        } else {
            format!("{plain}.0")
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// `str.isspace` of one character: White_Space and the four separators.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}
