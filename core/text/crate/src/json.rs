// SPDX-License-Identifier: Apache-2.0
//! JSON text to template values, as Python's `json.loads` reads it: order of
//! keys kept, integers exact (to 128 bits), 1.0 not 1, the last of duplicate
//! keys wins, NaN and Infinity allowed.

use std::iter::Peekable;
use std::str::CharIndices;

use minijinja::Value;

const MAX_DEPTH: usize = 200;

/// Parses all of `text`. An error's message begins with `what`.
pub fn parse(text: &str, what: &str) -> Result<Value, String> {
    let mut parser = Parser {
        text,
        chars: text.char_indices().peekable(),
    };
    let value = parser.value(0).and_then(|value| {
        parser.space();
        match parser.chars.peek() {
            None => Ok(value),
            Some(_) => Err(parser.expected("the end")),
        }
    });
    value.map_err(|e| format!("{what}: malformed JSON: {e}"))
}

struct Parser<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
}

impl<'a> Parser<'a> {
    fn expected(&mut self, what: &str) -> String {
        let at = self.chars.peek().map_or(self.text.len(), |&(i, _)| i);
        format!("{what} expected at byte {at}")
    }

    fn space(&mut self) {
        while self
            .chars
            .next_if(|&(_, c)| matches!(c, ' ' | '\t' | '\n' | '\r'))
            .is_some()
        {}
    }

    fn take(&mut self, c: char) -> bool {
        self.chars.next_if(|&(_, d)| d == c).is_some()
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH}"));
        }
        self.space();
        match self.chars.peek().map(|&(_, c)| c) {
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some('"') => Ok(Value::from(self.string()?)),
            _ => self.scalar(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        self.chars.next();
        let mut pairs: Vec<(Value, Value)> = Vec::new();
        self.space();
        if self.take('}') {
            return Ok(Value::from_pairs(pairs));
        }
        loop {
            self.space();
            let key = Value::from(self.string()?);
            self.space();
            if !self.take(':') {
                return Err(self.expected("':'"));
            }
            pairs.push((key, self.value(depth + 1)?));
            self.space();
            if self.take('}') {
                return Ok(Value::from_pairs(pairs));
            }
            if !self.take(',') {
                return Err(self.expected("',' or '}'"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, String> {
        self.chars.next();
        let mut items: Vec<Value> = Vec::new();
        self.space();
        if self.take(']') {
            return Ok(Value::from(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            if self.take(']') {
                return Ok(Value::from(items));
            }
            if !self.take(',') {
                return Err(self.expected("',' or ']'"));
            }
        }
    }

    fn string(&mut self) -> Result<String, String> {
        if !self.take('"') {
            return Err(self.expected("a string"));
        }
        let mut out = String::new();
        loop {
            match self.chars.next() {
                Some((_, '"')) => return Ok(out),
                Some((_, '\\')) => out.push(self.escape()?),
                Some((i, c)) if c < ' ' => return Err(format!("control character at byte {i}")),
                Some((_, c)) => out.push(c),
                None => return Err(self.expected("'\"'")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        Ok(match self.chars.next().map(|(_, c)| c) {
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('b') => '\x08',
            Some('f') => '\x0c',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => return self.unicode(),
            _ => return Err(self.expected("an escape")),
        })
    }

    fn unicode(&mut self) -> Result<char, String> {
        let mut code = self.hex4()?;
        if (0xd800..0xdc00).contains(&code) && self.take('\\') && self.take('u') {
            let low = self.hex4()?;
            if (0xdc00..0xe000).contains(&low) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            }
        }
        char::from_u32(code).ok_or_else(|| self.expected("the rest of a surrogate pair"))
    }

    fn hex4(&mut self) -> Result<u32, String> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.chars.next().and_then(|(_, c)| c.to_digit(16));
            match digit {
                Some(digit) => code = code * 16 + digit,
                None => return Err(self.expected("four hex digits")),
            }
        }
        Ok(code)
    }

    fn scalar(&mut self) -> Result<Value, String> {
        let begin = self.chars.peek().map_or(self.text.len(), |&(i, _)| i);
        let inside = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        while self.chars.next_if(|&(_, c)| inside(c)).is_some() {}
        let end = self.chars.peek().map_or(self.text.len(), |&(i, _)| i);
        word(&self.text[begin..end]).ok_or_else(|| format!("a value expected at byte {begin}"))
    }
}

fn word(word: &str) -> Option<Value> {
    Some(match word {
        "null" => Value::from(()),
        "true" => Value::from(true),
        "false" => Value::from(false),
        "NaN" => Value::from(f64::NAN),
        "Infinity" => Value::from(f64::INFINITY),
        "-Infinity" => Value::from(f64::NEG_INFINITY),
        _ => return number(word),
    })
}

fn number(word: &str) -> Option<Value> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let whole = digits.split(['.', 'e', 'E']).next()?;
    let well_formed =
        whole.bytes().all(|b| b.is_ascii_digit()) && (whole == "0" || !whole.starts_with('0'));
    if whole.is_empty() || !well_formed || word.ends_with('.') {
        return None;
    }
    if whole.len() < digits.len() {
        let fraction = &digits.as_bytes()[whole.len()..];
        let bare = fraction[0] == b'.' && !fraction[1].is_ascii_digit();
        return if bare {
            None
        } else {
            word.parse::<f64>().ok().map(Value::from)
        };
    }
    if let Ok(small) = word.parse::<i64>() {
        return Some(Value::from(small));
    }
    word.parse::<i128>().ok().map(Value::from)
}
