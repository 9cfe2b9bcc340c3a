// SPDX-License-Identifier: Apache-2.0
//! The functions that core/text/abi.h declares. All `unsafe` of the crate that
//! concerns the caller's memory is here.

use std::mem::ManuallyDrop;
use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::chat::ChatTemplate;
use crate::delimited::{self, Row};
use crate::range::Range;
use crate::tokenizer::{ClassifierToken, TextTokenizer, Token};

const OK: i32 = 0;
const INVALID: i32 = 1;
const PANIC: i32 = 2;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct View {
    data: *const u8,
    size: usize,
}

/// A `Vec` as pointer, size and capacity, the form used on the C side.
#[repr(C)]
pub struct Parts<T> {
    data: *mut T,
    size: usize,
    capacity: usize,
}

impl View {
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        std::slice::from_raw_parts(self.data, self.size)
    }

    unsafe fn text<'a>(self, what: &str) -> Result<&'a str, String> {
        std::str::from_utf8(self.bytes())
            .map_err(|e| format!("{what}: not UTF-8 after byte {}", e.valid_up_to()))
    }
}

impl<T> Parts<T> {
    fn from_vec(vec: Vec<T>) -> Self {
        let mut vec = ManuallyDrop::new(vec);
        Parts {
            data: vec.as_mut_ptr(),
            size: vec.len(),
            capacity: vec.capacity(),
        }
    }

    unsafe fn free(self) {
        if !self.data.is_null() {
            drop(Vec::from_raw_parts(self.data, self.size, self.capacity));
        }
    }
}

/// Runs `body`, turning its error and any panic into a code and a message.
unsafe fn guarded(error: *mut Parts<u8>, body: impl FnOnce() -> Result<(), String>) -> i32 {
    let (code, message) = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return OK,
        Ok(Err(message)) => (INVALID, message),
        Err(panic) => (PANIC, panic_message(panic)),
    };
    error.write(Parts::from_vec(message.into_bytes()));
    code
}

fn panic_message(panic: Box<dyn std::any::Any + Send>) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()))
        .unwrap_or_else(|| "panic without a message".to_string())
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_bytes_free(bytes: Parts<u8>) {
    bytes.free()
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_ranges_free(ranges: Parts<Range>) {
    ranges.free()
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_tokens_free(tokens: Parts<Token>) {
    tokens.free()
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_classifier_tokens_free(tokens: Parts<ClassifierToken>) {
    tokens.free()
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_ids_free(ids: Parts<u32>) {
    ids.free()
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_sizes_free(sizes: Parts<usize>) {
    sizes.free()
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_rows_free(rows: Parts<Row>) {
    rows.free()
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_parse_rows(
    input: View,
    delimiter: u8,
    quoting: i32,
    text: *mut Parts<u8>,
    ends: *mut Parts<usize>,
    rows: *mut Parts<Row>,
    error: *mut Parts<u8>,
) -> i32 {
    guarded(error, || {
        let parsed = delimited::parse(input.bytes(), delimiter, quoting != 0);
        text.write(Parts::from_vec(parsed.text));
        ends.write(Parts::from_vec(parsed.ends));
        rows.write(Parts::from_vec(parsed.rows));
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn mpsd_text_set_now(microseconds: u64) {
    crate::environment::set_now(microseconds);
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_nfc(
    text: View,
    out: *mut Parts<u8>,
    error: *mut Parts<u8>,
) -> i32 {
    guarded(error, || {
        let mut normal = tokenizers::NormalizedString::from(text.text("text")?);
        normal.nfc();
        out.write(Parts::from_vec(normal.get().as_bytes().to_vec()));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_tokenizer_new(
    json: View,
    added: View,
    class: View,
    split_special: i32,
    out: *mut *mut TextTokenizer,
    error: *mut Parts<u8>,
) -> i32 {
    guarded(error, || {
        let (json, added, class) = (json.bytes(), added.bytes(), class.bytes());
        let tokenizer = TextTokenizer::new(json, added, class, split_special != 0)?;
        out.write(Box::into_raw(Box::new(tokenizer)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_tokenizer_free(tokenizer: *mut TextTokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_vocab_size(tokenizer: *const TextTokenizer) -> usize {
    catch_unwind(AssertUnwindSafe(|| (*tokenizer).vocab_size())).unwrap_or(0)
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_token_to_id(
    tokenizer: *const TextTokenizer,
    token: View,
) -> i64 {
    catch_unwind(AssertUnwindSafe(|| {
        let token = token.text("token").ok()?;
        (*tokenizer).token_to_id(token)
    }))
    .unwrap_or(None)
    .map_or(-1, i64::from)
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_encode(
    tokenizer: *const TextTokenizer,
    text: View,
    add_special_tokens: i32,
    out: *mut Parts<Token>,
    error: *mut Parts<u8>,
) -> i32 {
    guarded(error, || {
        let text = text.text("text")?;
        let tokens = (*tokenizer).encode(text, add_special_tokens != 0)?;
        out.write(Parts::from_vec(tokens));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_encode_ids(
    tokenizer: *const TextTokenizer,
    text: View,
    add_special_tokens: i32,
    out: *mut Parts<u32>,
    error: *mut Parts<u8>,
) -> i32 {
    guarded(error, || {
        let text = text.text("text")?;
        let ids = (*tokenizer).encode_ids(text, add_special_tokens != 0)?;
        out.write(Parts::from_vec(ids));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_encode_classifier(
    tokenizer: *const TextTokenizer,
    text: View,
    pair: *const View,
    max_length: usize,
    truncate_left: i32,
    out: *mut Parts<ClassifierToken>,
    truncated: *mut i32,
    error: *mut Parts<u8>,
) -> i32 {
    guarded(error, || {
        let text = text.text("text")?;
        let pair = pair.as_ref().map(|p| p.text("second text")).transpose()?;
        let left = (truncate_left >= 0).then_some(truncate_left != 0);
        let (tokens, cut) = (*tokenizer).encode_classifier(text, pair, max_length, left)?;
        out.write(Parts::from_vec(tokens));
        truncated.write(i32::from(cut));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_decode(
    tokenizer: *const TextTokenizer,
    ids: *const u32,
    count: usize,
    skip_special_tokens: i32,
    out: *mut Parts<u8>,
    error: *mut Parts<u8>,
) -> i32 {
    guarded(error, || {
        let ids = if count == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(ids, count)
        };
        let text = (*tokenizer).decode(ids, skip_special_tokens != 0)?;
        out.write(Parts::from_vec(text.into_bytes()));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_template_new(
    sources: View,
    globals: View,
    out: *mut *mut ChatTemplate,
    error: *mut Parts<u8>,
) -> i32 {
    guarded(error, || {
        let template = ChatTemplate::new(sources.text("templates")?, globals.text("tokens")?)?;
        out.write(Box::into_raw(Box::new(template)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_template_free(template: *mut ChatTemplate) {
    if !template.is_null() {
        drop(Box::from_raw(template));
    }
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_template_has_generation(template: *const ChatTemplate) -> i32 {
    i32::from((*template).has_generation())
}

#[no_mangle]
pub unsafe extern "C" fn mpsd_text_template_render(
    template: *const ChatTemplate,
    messages: View,
    tools: View,
    kwargs: View,
    add_generation_prompt: i32,
    out: *mut Parts<u8>,
    generation: *mut Parts<Range>,
    error: *mut Parts<u8>,
) -> i32 {
    guarded(error, || {
        let (text, ranges) = (*template).render(
            messages.text("messages")?,
            tools.text("tools")?,
            kwargs.text("kwargs")?,
            add_generation_prompt != 0,
        )?;
        out.write(Parts::from_vec(text.into_bytes()));
        generation.write(Parts::from_vec(ranges));
        Ok(())
    })
}
