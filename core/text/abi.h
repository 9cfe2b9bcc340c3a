// SPDX-License-Identifier: Apache-2.0
#pragma once

// The C interface of the Rust crate in core/text/crate (its src/abi.rs is the
// other half; change both together). Only this room's sources include it.
//
// Every function that can fail returns a code and, unless that is MPSD_TEXT_OK,
// puts a message into `*error`. No panic leaves the crate: it becomes
// MPSD_TEXT_PANIC. Strings are UTF-8, given as pointer and length, read only
// during the call. Handles may be used by several threads at once.

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum mpsd_text_code {
  MPSD_TEXT_OK = 0,
  MPSD_TEXT_INVALID = 1,
  MPSD_TEXT_PANIC = 2,
};

struct mpsd_text_tokenizer;
struct mpsd_text_template;

struct mpsd_text_view {
  const char* data;
  size_t size;
};

// Bytes that the crate allocated; release them with mpsd_text_bytes_free, which
// accepts zeroed ones too.
struct mpsd_text_bytes {
  char* data;
  size_t size;
  size_t capacity;
};

// Half-open byte range.
struct mpsd_text_range {
  size_t begin;
  size_t end;
};

struct mpsd_text_ranges {
  struct mpsd_text_range* data;
  size_t size;
  size_t capacity;
};

struct mpsd_text_token {
  uint32_t id;
  struct mpsd_text_range range;
};

struct mpsd_text_tokens {
  struct mpsd_text_token* data;
  size_t size;
  size_t capacity;
};

// A token of a classifier's input.
struct mpsd_text_classifier_token {
  uint32_t id;
  uint32_t type_id;
};

struct mpsd_text_classifier_tokens {
  struct mpsd_text_classifier_token* data;
  size_t size;
  size_t capacity;
};

struct mpsd_text_ids {
  uint32_t* data;
  size_t size;
  size_t capacity;
};

struct mpsd_text_sizes {
  size_t* data;
  size_t size;
  size_t capacity;
};

enum mpsd_text_row_fault {
  MPSD_TEXT_ROW_SOUND = 0,
  MPSD_TEXT_ROW_UNCLOSED = 1,      // a quoted field is not closed
  MPSD_TEXT_ROW_BEHIND_QUOTE = 2,  // text follows its closing quote
};

struct mpsd_text_row {
  uint64_t line;      // the line of its first byte, from 1
  size_t fields_end;  // one past its last field
  uint32_t fault;     // mpsd_text_row_fault
};

struct mpsd_text_rows {
  struct mpsd_text_row* data;
  size_t size;
  size_t capacity;
};

void mpsd_text_bytes_free(struct mpsd_text_bytes bytes);
void mpsd_text_ranges_free(struct mpsd_text_ranges ranges);
void mpsd_text_tokens_free(struct mpsd_text_tokens tokens);
void mpsd_text_classifier_tokens_free(
    struct mpsd_text_classifier_tokens tokens);
void mpsd_text_ids_free(struct mpsd_text_ids ids);
void mpsd_text_sizes_free(struct mpsd_text_sizes sizes);
void mpsd_text_rows_free(struct mpsd_text_rows rows);

// Separated values: `text` gets the fields one after the other, `ends` the
// offset in `text` where each field ends. `input` need not be UTF-8. Without
// `quoting` a quote is an ordinary character.
int mpsd_text_parse_rows(struct mpsd_text_view input, char delimiter,
                         int quoting, struct mpsd_text_bytes* text,
                         struct mpsd_text_sizes* ends,
                         struct mpsd_text_rows* rows,
                         struct mpsd_text_bytes* error);

// `text` in Unicode's normalisation form C.
int mpsd_text_nfc(struct mpsd_text_view text, struct mpsd_text_bytes* out,
                  struct mpsd_text_bytes* error);

// `json`: a tokenizer.json. `added`: a JSON array of tokens by id, which
// replace those of `json` in the order of the ids, and of an array of tokens
// that are added if neither has them; tokens have the form of tokenizer.json's
// "added_tokens". `tokenizer_class`: ClassParts of the crate, or null.
// `split_special`: special tokens in a text are split like any other text.
int mpsd_text_tokenizer_new(struct mpsd_text_view json,
                            struct mpsd_text_view added,
                            struct mpsd_text_view tokenizer_class,
                            int split_special, struct mpsd_text_tokenizer** out,
                            struct mpsd_text_bytes* error);
void mpsd_text_tokenizer_free(struct mpsd_text_tokenizer* tokenizer);
size_t mpsd_text_vocab_size(const struct mpsd_text_tokenizer* tokenizer);
// The token's id, or -1 for an unknown token.
int64_t mpsd_text_token_to_id(const struct mpsd_text_tokenizer* tokenizer,
                              struct mpsd_text_view token);
int mpsd_text_encode(const struct mpsd_text_tokenizer* tokenizer,
                     struct mpsd_text_view text, int add_special_tokens,
                     struct mpsd_text_tokens* out,
                     struct mpsd_text_bytes* error);
// Like mpsd_text_encode without the ranges, which take longer to compute than
// the ids.
int mpsd_text_encode_ids(const struct mpsd_text_tokenizer* tokenizer,
                         struct mpsd_text_view text, int add_special_tokens,
                         struct mpsd_text_ids* out,
                         struct mpsd_text_bytes* error);
// `pair` may be null. `truncate_left`: -1 for the side that `json` names.
int mpsd_text_encode_classifier(const struct mpsd_text_tokenizer* tokenizer,
                                struct mpsd_text_view text,
                                const struct mpsd_text_view* pair,
                                size_t max_length, int truncate_left,
                                struct mpsd_text_classifier_tokens* out,
                                int* truncated, struct mpsd_text_bytes* error);
int mpsd_text_decode(const struct mpsd_text_tokenizer* tokenizer,
                     const uint32_t* ids, size_t count, int skip_special_tokens,
                     struct mpsd_text_bytes* out,
                     struct mpsd_text_bytes* error);

// The time that strftime_now shows from here on, in microseconds since 1970.
void mpsd_text_set_now(uint64_t microseconds);
// `sources`: a JSON object of the templates by name ("default", "tool_use").
// `globals`: a JSON object of variables, or empty.
int mpsd_text_template_new(struct mpsd_text_view sources,
                           struct mpsd_text_view globals,
                           struct mpsd_text_template** out,
                           struct mpsd_text_bytes* error);
void mpsd_text_template_free(struct mpsd_text_template* chat_template);
// Whether the template used without tools has {% generation %} blocks.
int mpsd_text_template_has_generation(
    const struct mpsd_text_template* chat_template);
int mpsd_text_template_render(const struct mpsd_text_template* chat_template,
                              struct mpsd_text_view messages,
                              struct mpsd_text_view tools,
                              struct mpsd_text_view kwargs,
                              int add_generation_prompt,
                              struct mpsd_text_bytes* out,
                              struct mpsd_text_ranges* generation,
                              struct mpsd_text_bytes* error);

#ifdef __cplusplus
}  // extern "C"
#endif
