// SPDX-License-Identifier: Apache-2.0
//! Comma- and tab-separated values (RFC 4180).

use csv_core::{ReadRecordResult, ReaderBuilder};

/// Faults of a row's quotes.
const SOUND: u32 = 0;
const UNCLOSED: u32 = 1;
const BEHIND_QUOTE: u32 = 2;

#[repr(C)]
pub struct Row {
    /// The line of the row's first byte, from 1.
    line: u64,
    /// One past its last field in `Rows::ends`.
    fields_end: usize,
    fault: u32,
}

/// The fields' text one after the other, the end of each field in it, and the
/// rows.
#[derive(Default)]
pub struct Rows {
    pub text: Vec<u8>,
    pub ends: Vec<usize>,
    pub rows: Vec<Row>,
}

/// Empty lines are not rows. Without `quoting` a quote is an ordinary
/// character.
pub fn parse(input: &[u8], delimiter: u8, quoting: bool) -> Rows {
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .quoting(quoting)
        .build();
    let mut rows = Rows::default();
    let mut field = vec![0; input.len() + 1];
    let mut ends = vec![0; 64];
    let (mut at, mut line) = (0, 1);
    loop {
        let blank = input[at..].iter().take_while(|&&c| is_line_end(c)).count();
        line += line_ends(input, at, at + blank);
        at += blank;
        let begin = at;
        let (mut written, mut count) = (0, 0);
        loop {
            let (result, read, out, fields) =
                reader.read_record(&input[at..], &mut field[written..], &mut ends[count..]);
            at += read;
            written += out;
            count += fields;
            match result {
                // The input is used up: the next call, without input, ends the
                // record.
                ReadRecordResult::InputEmpty | ReadRecordResult::OutputFull => {}
                ReadRecordResult::OutputEndsFull => ends.resize(2 * ends.len(), 0),
                ReadRecordResult::Record => break,
                ReadRecordResult::End => return rows,
            }
        }
        let raw = &input[begin..at];
        let fault = match quoting {
            true => fault(raw, delimiter),
            false => SOUND,
        };
        let offset = rows.text.len();
        rows.text.extend_from_slice(&field[..written]);
        rows.ends
            .extend(ends[..count].iter().map(|end| offset + end));
        rows.rows.push(Row {
            line,
            fields_end: rows.ends.len(),
            fault,
        });
        line += line_ends(input, begin, at);
    }
}

fn is_line_end(c: u8) -> bool {
    c == b'\n' || c == b'\r'
}

/// Line breaks that end in `begin..end`: "\n", "\r" and, as one, "\r\n".
fn line_ends(input: &[u8], begin: usize, end: usize) -> u64 {
    let ends = |&i: &usize| match input[i] {
        b'\n' => true,
        b'\r' => input.get(i + 1) != Some(&b'\n'),
        _ => false,
    };
    (begin..end).filter(ends).count() as u64
}

/// Faults that the csv reader accepts silently: a quoted field that is not
/// closed, or text after a closing quote.
fn fault(raw: &[u8], delimiter: u8) -> u32 {
    let mut at = 0;
    while at < raw.len() {
        if raw[at] == b'"' {
            at += 1;
            loop {
                match (raw.get(at), raw.get(at + 1)) {
                    (None, _) => return UNCLOSED,
                    (Some(b'"'), Some(b'"')) => at += 2,
                    (Some(b'"'), _) => break,
                    _ => at += 1,
                }
            }
            at += 1;
            match raw.get(at) {
                None => return SOUND,
                Some(&c) if c == delimiter || is_line_end(c) => {}
                Some(_) => return BEHIND_QUOTE,
            }
        }
        match raw[at..].iter().position(|&c| c == delimiter) {
            Some(next) => at += next + 1,
            None => return SOUND,
        }
    }
    SOUND
}
