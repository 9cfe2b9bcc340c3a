// SPDX-License-Identifier: Apache-2.0
//! Tokenizers, chat templates and tables behind a small C ABI (core/text/abi.h).

mod abi;
mod chat;
mod delimited;
mod environment;
mod generation;
mod json;
mod methods;
mod model;
mod python;
mod range;
mod tojson;
mod tokenizer;
