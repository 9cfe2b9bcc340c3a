// SPDX-License-Identifier: Apache-2.0
//! The Jinja environment of Transformers' chat templates
//! (_cached_compile_jinja_template in its utils/chat_template_utils.py), with
//! Jinja2's own behaviour where the engine's differs.

use std::ffi::{c_char, CString};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, StringInput, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};
use minijinja_contrib::globals;

use crate::{methods, python, tojson};

/// Starts the detail of an error raised by the template itself.
pub const RAISED: &str = "\u{1}raised ";

pub fn new() -> Environment<'static> {
    let mut env = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()
        .expect("the default delimiters are valid");
    env.set_syntax(syntax);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_formatter(|out, state, value| {
        if !matches!(state.auto_escape(), AutoEscape::None) {
            let detail = "{% autoescape %} is not supported; remove it from the template";
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        match value.as_str() {
            Some(text) => Ok(out.write_str(text)?),
            None => Ok(out.write_str(&python::str(value))?),
        }
    });
    env.set_unknown_method_callback(methods::unknown_method);
    add_filters(&mut env);
    add_tests(&mut env);
    env.add_function("cycler", |items: Rest<Value>| {
        globals::cycler(items.to_vec())
    });
    env.add_function("joiner", globals::joiner);
    env.add_function("dict", dict);
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", strftime_now);
    env
}

fn add_filters(env: &mut Environment<'static>) {
    // The engine's give other results than Jinja2's: a group that is printed, an
    // attribute of a dict.
    env.remove_filter("groupby");
    env.remove_filter("attr");
    env.add_filter("tojson", tojson::filter);
    env.add_filter("string", |value: &Value| python::str(value));
    env.add_filter("length", length);
    env.add_filter("count", length);
    env.add_filter("trim", |text: StringInput<'_>, chars: Option<&str>| {
        methods::strip_str(text.as_str(), chars, true, true).to_string()
    });
}

fn length(value: &Value) -> Result<usize, Error> {
    match value.is_undefined() {
        true => Ok(0),
        false => minijinja::filters::length(value),
    }
}

fn add_tests(env: &mut Environment<'static>) {
    env.add_test("iterable", |value: &Value| {
        !value.is_none() && value.try_iter().is_ok()
    });
    env.add_test("sequence", |value: &Value| {
        use ValueKind::{Map, Seq, String, Undefined};
        matches!(value.kind(), Seq | String | Map | Undefined)
    });
    env.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
}

/// `dict(mapping_or_pairs, **members)`.
fn dict(value: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let mut members: Vec<(Value, Value)> = Vec::new();
    if let Some(value) = value {
        let is_map = value.kind() == ValueKind::Map;
        for item in value.try_iter()?.checked() {
            let item = item?;
            members.push(match is_map {
                true => (item.clone(), value.get_item(&item)?),
                false => (item.get_item_by_index(0)?, item.get_item_by_index(1)?),
            });
        }
    }
    for name in kwargs.args() {
        members.push((Value::from(name), kwargs.get(name)?));
    }
    Ok(Value::from_pairs(members))
}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    let detail = format!("{RAISED}{}", python::str(message));
    Err(Error::new(ErrorKind::InvalidOperation, detail))
}

extern "C" {
    fn tzset();
    fn strftime(
        out: *mut c_char,
        max: usize,
        format: *const c_char,
        time: *const libc::tm,
    ) -> usize;
}

/// Microseconds since 1970; 0: not set.
static NOW: AtomicU64 = AtomicU64::new(0);

pub fn set_now(microseconds: u64) {
    NOW.store(microseconds, Ordering::Relaxed);
}

/// The time that was set, else that of the first call, kept for the process: a
/// row is rendered several times to find its labels, and these renderings must
/// not differ because midnight passed.
fn now() -> Duration {
    let clock = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_micros() as u64;
    let kept = NOW.compare_exchange(0, clock, Ordering::Relaxed, Ordering::Relaxed);
    Duration::from_micros(kept.err().unwrap_or(clock))
}

/// `datetime.now().strftime(format)`: local time, C's conversions and %f. One
/// time for the whole process.
fn strftime_now(format: &str) -> Result<String, Error> {
    let now = now();
    let micros = format!("{:06}", now.subsec_micros());
    let escaped = format.replace("%%", "\u{1}");
    let format = escaped.replace("%f", &micros).replace('\u{1}', "%%");
    let invalid = |_| Error::new(ErrorKind::InvalidOperation, "NUL in a format");
    let c_format = CString::new(format).map_err(invalid)?;
    let seconds = now.as_secs() as libc::time_t;
    let mut out = vec![0u8; 256 + 8 * c_format.as_bytes().len()];
    // SAFETY: `tm` is plain data that localtime_r fills; `out` and its length
    // are strftime's bounds and the format ends in NUL.
    let written = unsafe {
        tzset();
        let mut time: libc::tm = std::mem::zeroed();
        libc::localtime_r(&seconds, &mut time);
        strftime(out.as_mut_ptr().cast(), out.len(), c_format.as_ptr(), &time)
    };
    out.truncate(written);
    Ok(String::from_utf8_lossy(&out).into_owned())
}
