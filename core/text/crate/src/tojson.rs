// SPDX-License-Identifier: Apache-2.0
//! The `tojson` filter as Transformers defines it: Python's `json.dumps` with
//! `ensure_ascii=False`.

use std::fmt::Write;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use crate::python;

struct Style {
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

/// `tojson(x, ensure_ascii=False, indent=None, separators=None,
/// sort_keys=False)`.
pub fn filter(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let argument = |position: usize, name: &str| -> Result<Value, Error> {
        match args.get(position) {
            Some(value) => Ok(value.clone()),
            None => Ok(kwargs.get::<Option<Value>>(name)?.unwrap_or_default()),
        }
    };
    let ensure_ascii = argument(0, "ensure_ascii")?.is_true();
    let indent = indentation(&argument(1, "indent")?)?;
    let separators = argument(2, "separators")?;
    let sort_keys = argument(3, "sort_keys")?.is_true();
    kwargs.assert_all_used()?;
    let (item_separator, key_separator) = if present(&separators) {
        (
            text(&separators.get_item_by_index(0)?)?,
            text(&separators.get_item_by_index(1)?)?,
        )
    } else if indent.is_some() {
        (",".to_string(), ": ".to_string())
    } else {
        (", ".to_string(), ": ".to_string())
    };
    let style = Style {
        ensure_ascii,
        indent,
        item_separator,
        key_separator,
        sort_keys,
    };
    let mut out = String::new();
    style.write(&mut out, value, 0)?;
    Ok(Value::from(out))
}

fn present(value: &Value) -> bool {
    !value.is_undefined() && !value.is_none()
}

fn text(value: &Value) -> Result<String, Error> {
    value
        .as_str()
        .map(str::to_string)
        .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "separators must be strings"))
}

fn indentation(value: &Value) -> Result<Option<String>, Error> {
    if !present(value) {
        return Ok(None);
    }
    if let Some(text) = value.as_str() {
        return Ok(Some(text.to_string()));
    }
    let width = i64::try_from(value.clone())?;
    Ok(Some(" ".repeat(width.clamp(0, 1000) as usize)))
}

impl Style {
    fn write(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        match value.kind() {
            ValueKind::String => self.string(out, value.as_str().unwrap_or("")),
            ValueKind::Seq | ValueKind::Iterable => self.array(out, value, depth)?,
            ValueKind::Map => self.object(out, value, depth)?,
            _ => out.push_str(&scalar(value)?),
        }
        Ok(())
    }

    fn array(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        out.push('[');
        let mut empty = true;
        for item in value.try_iter()?.checked() {
            self.separate(out, empty, depth + 1);
            self.write(out, &item?, depth + 1)?;
            empty = false;
        }
        self.close(out, ']', empty, depth);
        Ok(())
    }

    fn object(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        if self.sort_keys {
            keys.sort();
        }
        out.push('{');
        for (i, key) in keys.iter().enumerate() {
            self.separate(out, i == 0, depth + 1);
            match key.as_str() {
                Some(text) => self.string(out, text),
                None => self.string(out, &scalar(key)?),
            }
            out.push_str(&self.key_separator);
            self.write(out, &value.get_item(key)?, depth + 1)?;
        }
        self.close(out, '}', keys.is_empty(), depth);
        Ok(())
    }

    fn separate(&self, out: &mut String, first: bool, depth: usize) {
        if !first {
            out.push_str(&self.item_separator);
        }
        self.line(out, depth);
    }

    fn close(&self, out: &mut String, bracket: char, empty: bool, depth: usize) {
        if !empty {
            self.line(out, depth);
        }
        out.push(bracket);
    }

    fn line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    fn string(&self, out: &mut String, text: &str) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\x08' => out.push_str("\\b"),
                '\x0c' => out.push_str("\\f"),
                c if c < ' ' => unicode(out, c),
                c if self.ensure_ascii && c > '~' => unicode(out, c),
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn unicode(out: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        let _ = write!(out, "\\u{unit:04x}");
    }
}

fn scalar(value: &Value) -> Result<String, Error> {
    Ok(match value.kind() {
        ValueKind::None => "null".to_string(),
        ValueKind::Bool => if value.is_true() { "true" } else { "false" }.to_string(),
        ValueKind::Number if value.is_integer() => value.to_string(),
        ValueKind::Number => match f64::try_from(value.clone())? {
            x if x.is_nan() => "NaN".to_string(),
            x if x.is_infinite() => if x > 0.0 { "Infinity" } else { "-Infinity" }.to_string(),
            x => python::float(x),
        },
        kind => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("tojson: a value of type {kind} has no JSON form"),
            ))
        }
    })
}
