// SPDX-License-Identifier: Apache-2.0
//! A model's chat templates and the data they are rendered with, prepared as
//! apply_chat_template and render_jinja_template of Transformers do.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, Value};

use crate::environment::{self, RAISED};
use crate::generation::{self, Tracker};
use crate::json;
use crate::range::Range;

const RESERVED: [&str; 3] = ["messages", "tools", "add_generation_prompt"];
// Possible names of a message's reasoning; templates read the first.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

type Pairs = Vec<(Value, Value)>;

pub struct ChatTemplate {
    environment: Environment<'static>,
    globals: Pairs,
    has_generation: bool,
}

impl ChatTemplate {
    /// `sources`: a JSON object of templates by name; `globals`: a JSON object
    /// of variables, or empty.
    pub fn new(sources: &str, globals: &str) -> Result<Self, String> {
        let sources: BTreeMap<String, String> = serde_json::from_str(sources)
            .map_err(|e| format!("templates by name expected: {e}"))?;
        let mut environment = environment::new();
        let mut has_generation = false;
        for (name, source) in sources {
            // Jinja's lexer replaces line ends in the same way, so that files
            // from any system render alike.
            let source = source.replace("\r\n", "\n").replace('\r', "\n");
            let (source, generation) = generation::rewrite(&source);
            has_generation |= generation && name == "default";
            environment
                .add_template_owned(name, source)
                .map_err(|e| describe(&e))?;
        }
        Ok(ChatTemplate {
            environment,
            globals: pairs(globals, "tokens")?,
            has_generation,
        })
    }

    /// Whether the template used without tools has `{% generation %}`.
    pub fn has_generation(&self) -> bool {
        self.has_generation
    }

    /// The text and its byte ranges that generation blocks produced.
    pub fn render(
        &self,
        messages: &str,
        tools: &str,
        kwargs: &str,
        add_generation_prompt: bool,
    ) -> Result<(String, Vec<Range>), String> {
        let tools = tool_schemas(tools)?;
        let tool_use = !tools.is_none() && self.environment.get_template("tool_use").is_ok();
        let tracker = Arc::new(Tracker::default());
        let mut context: Pairs = vec![
            (Value::from("messages"), conversation(messages)?),
            (Value::from("tools"), tools),
            (Value::from("documents"), Value::from(())),
            (
                Value::from("add_generation_prompt"),
                Value::from(add_generation_prompt),
            ),
            (
                Value::from(generation::TRACKER),
                Value::from_dyn_object(tracker.clone()),
            ),
        ];
        context.extend(self.globals.iter().cloned());
        context.extend(pairs(kwargs, "kwargs")?);
        let name = if tool_use { "tool_use" } else { "default" };
        let text = self.run(name, Value::from_pairs(context), &tracker)?;
        let ranges = byte_ranges(&text, &tracker);
        Ok((text, ranges))
    }

    fn run(&self, name: &str, context: Value, tracker: &Tracker) -> Result<String, String> {
        let template = self
            .environment
            .get_template(name)
            .map_err(|_| format!("none of the named templates is \"{name}\""))?;
        let mut sink = Sink {
            bytes: Vec::new(),
            written: tracker.written.clone(),
        };
        template
            .render_captured_to(context, &mut sink)
            .map_err(|e| describe(&e))?;
        String::from_utf8(sink.bytes).map_err(|e| e.to_string())
    }
}

/// The output; reports the number of characters written to the tracker.
struct Sink {
    bytes: Vec<u8>,
    written: Arc<AtomicUsize>,
}

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let starts = bytes.iter().filter(|&&b| b & 0xc0 != 0x80).count();
        self.written.fetch_add(starts, Ordering::Relaxed);
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn byte_ranges(text: &str, tracker: &Tracker) -> Vec<Range> {
    let ranges = tracker.ranges.lock().unwrap();
    if ranges.is_empty() {
        return Vec::new();
    }
    let starts: Vec<usize> = text.char_indices().map(|(i, _)| i).collect();
    let byte = |i: usize| starts.get(i).copied().unwrap_or(text.len());
    ranges
        .iter()
        .map(|&(b, e)| Range {
            begin: byte(b),
            end: byte(e),
        })
        .collect()
}

/// The members of an object; none for an empty text.
fn pairs(text: &str, what: &str) -> Result<Pairs, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let members = members(&json::parse(text, what)?)
        .ok_or_else(|| format!("{what}: a JSON object expected"))?;
    for (key, _) in &members {
        if RESERVED.iter().any(|name| key.as_str() == Some(name)) {
            return Err(format!("{what}: '{key}' has an argument of its own"));
        }
    }
    Ok(members)
}

fn members(value: &Value) -> Option<Pairs> {
    if value.kind() != ValueKind::Map {
        return None;
    }
    let keys = value.try_iter().ok()?;
    Some(
        keys.map(|k| (k.clone(), value.get_item(&k).unwrap_or_default()))
            .collect(),
    )
}

fn array(value: &Value, what: &str) -> Result<Vec<Value>, String> {
    match value.kind() {
        ValueKind::Seq => Ok(value.try_iter().into_iter().flatten().collect()),
        kind => Err(format!("{what}: a JSON array expected, not {kind}")),
    }
}

fn tool_schemas(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::from(()));
    }
    let tools = json::parse(text, "tools")?;
    if tools.is_none() {
        return Ok(tools);
    }
    for (i, tool) in array(&tools, "tools")?.iter().enumerate() {
        if tool.kind() != ValueKind::Map {
            return Err(format!("tools[{i}]: an object (a JSON schema) expected"));
        }
    }
    Ok(tools)
}

fn conversation(text: &str) -> Result<Value, String> {
    let messages = array(&json::parse(text, "messages")?, "messages")?;
    if messages.is_empty() {
        return Err("messages: at least one expected".to_string());
    }
    let mut prepared = Vec::with_capacity(messages.len());
    for (i, message) in messages.iter().enumerate() {
        let members =
            members(message).ok_or_else(|| format!("messages[{i}]: an object expected"))?;
        prepared.push(message_of(members));
    }
    Ok(Value::from(prepared))
}

/// Drops null members; fills in the reasoning's other names.
fn message_of(members: Pairs) -> Value {
    let mut members: Pairs = members
        .into_iter()
        .filter(|(_, value)| !value.is_none())
        .collect();
    let find = |name: &str| members.iter().position(|(k, _)| k.as_str() == Some(name));
    let Some(at) = REASONING.iter().find_map(|name| find(name)) else {
        return Value::from_pairs(members);
    };
    let reasoning = members[at].1.clone();
    let standard = find(REASONING[0]);
    let thinking = find(REASONING[1]).map(|i| members.remove(i).1);
    if standard.is_none() {
        members.push((Value::from(REASONING[0]), reasoning.clone()));
    }
    members.insert(
        0,
        (Value::from(REASONING[1]), thinking.unwrap_or(reasoning)),
    );
    Value::from_pairs(members)
}

/// One line with the place and the fault; the template's own text if the
/// template raised the error.
fn describe(error: &Error) -> String {
    let mut deepest = error;
    let mut source = error.source();
    while let Some(inner) = source {
        deepest = inner.downcast_ref::<Error>().unwrap_or(deepest);
        source = inner.source();
    }
    let line = error.line().or(deepest.line());
    let place = line.map(|n| format!("line {n}: ")).unwrap_or_default();
    match deepest.detail() {
        Some(detail) => match detail.strip_prefix(RAISED) {
            Some(message) => format!("{place}{message}"),
            None => format!("{place}{}: {detail}", deepest.kind()),
        },
        None => format!("{place}{}", deepest.kind()),
    }
}
