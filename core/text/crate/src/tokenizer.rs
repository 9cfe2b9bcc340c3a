// SPDX-License-Identifier: Apache-2.0
//! A tokenizer.json, and what its folder and its class change in it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{json, Value};
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::utils::truncation::{
    truncate_encodings, TruncationDirection, TruncationParams, TruncationStrategy,
};
use tokenizers::{
    AddedToken, AddedVocabulary, DecoderWrapper, NormalizerWrapper, PostProcessor,
    PostProcessorWrapper, PreTokenizerWrapper, TokenizerImpl,
};

use crate::model::{FileModel, ModelSettings};
use crate::range::Range;

type Tokenizer = TokenizerImpl<
    FileModel,
    NormalizerWrapper,
    PreTokenizerWrapper,
    PostProcessorWrapper,
    DecoderWrapper,
>;

#[repr(C)]
pub struct Token {
    id: u32,
    range: Range,
}

/// A token of a text, or of a pair, for a classifier.
#[repr(C)]
pub struct ClassifierToken {
    id: u32,
    type_id: u32,
}

/// What a tokenizer class sets, whatever tokenizer.json says.
#[derive(Deserialize)]
struct ClassParts {
    model: ModelSettings,
    /// The type alone: the file's normalizer of this type, if it has one.
    #[serde(default)]
    normalizer: Value,
    pre_tokenizer: PreTokenizerWrapper,
    /// Without the ids of "cls" and "sep", if it has them; or "bos", the token
    /// before a single text, or null for none; null: the file's.
    #[serde(default)]
    post_processor: Value,
    /// Whether the file's added tokens count as declared.
    file_tokens: bool,
}

type Declared = BTreeMap<u32, AddedToken>;

impl ClassParts {
    fn apply(&mut self, tokenizer: &mut Tokenizer, declared: &mut Declared) -> Result<(), String> {
        if self.file_tokens {
            declared.extend(tokenizer.get_added_tokens_decoder());
        }
        tokenizer.with_added_vocabulary(AddedVocabulary::new());
        let mut model = tokenizer.get_model().clone();
        model.set(&self.model)?;
        tokenizer.with_model(model);
        if let Some(kind) = self.normalizer.as_str() {
            let of_file = json!(tokenizer.get_normalizer());
            let all = of_file["normalizers"].as_array();
            let mut all = all
                .map_or(std::slice::from_ref(&of_file), |n| n.as_slice())
                .iter();
            self.normalizer = all.find(|n| n["type"] == kind).cloned().unwrap_or_default();
        }
        let normalizer: Option<NormalizerWrapper> =
            serde_json::from_value(self.normalizer.take()).map_err(|e| e.to_string())?;
        tokenizer
            .with_normalizer(normalizer)
            .map_err(|e| e.to_string())?;
        tokenizer.with_pre_tokenizer(Some(self.pre_tokenizer.clone()));
        Ok(())
    }

    /// After the tokens are added.
    fn finish(mut self, tokenizer: &mut Tokenizer) -> Result<(), String> {
        if self.post_processor.is_null() {
            return Ok(());
        }
        if let Some(bos) = self.post_processor.get("bos") {
            let bos = bos.as_str().unwrap_or_default();
            let id = tokenizer.token_to_id(bos);
            let processor = TemplateProcessing::builder()
                .try_single(format!("{bos} $A").trim_start())?
                .special_tokens(Vec::from_iter(id.map(|id| (bos, id))))
                .build()
                .map_err(|e| e.to_string())?;
            tokenizer.with_post_processor(Some(processor));
            return Ok(());
        }
        for name in ["cls", "sep"] {
            let Some(token) = self.post_processor.get_mut(name).map(Value::take) else {
                continue;
            };
            let id = token.as_str().and_then(|t| tokenizer.token_to_id(t));
            let id = id.ok_or_else(|| format!("the tokenizer's class needs a {name}_token"))?;
            self.post_processor[name] = json!([token, id]);
        }
        let processor: PostProcessorWrapper =
            serde_json::from_value(self.post_processor).map_err(|e| e.to_string())?;
        tokenizer.with_post_processor(Some(processor));
        Ok(())
    }
}

pub struct TextTokenizer {
    tokenizer: Tokenizer,
    /// The side of the truncation in tokenizer.json.
    cuts_left: bool,
}

impl TextTokenizer {
    /// `added`: a JSON array of tokens by id, which replace those of
    /// tokenizer.json in this order, and of an array of tokens that are added if
    /// neither has them. `class`: `ClassParts`, or null.
    pub fn new(
        json: &[u8],
        added: &[u8],
        class: &[u8],
        split_special: bool,
    ) -> Result<Self, String> {
        let mut tokenizer: Tokenizer = serde_json::from_slice(json).map_err(|e| e.to_string())?;
        let (mut declared, named): (Declared, Vec<AddedToken>) =
            serde_json::from_slice(added).map_err(|e| e.to_string())?;
        let mut class: Option<ClassParts> =
            serde_json::from_slice(class).map_err(|e| e.to_string())?;
        if let Some(class) = &mut class {
            class.apply(&mut tokenizer, &mut declared)?;
        }
        let truncation = tokenizer.get_truncation();
        let cuts_left = truncation.is_some_and(|t| t.direction == TruncationDirection::Left);
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|e| e.to_string())?;
        tokenizer
            .add_tokens(declared.into_values())
            .map_err(|e| e.to_string())?;
        let known = tokenizer.get_added_vocabulary().get_vocab();
        let missing: Vec<AddedToken> = named
            .into_iter()
            .filter(|t| !known.contains_key(&t.content))
            .collect();
        tokenizer.add_tokens(missing).map_err(|e| e.to_string())?;
        if let Some(class) = class {
            class.finish(&mut tokenizer)?;
        }
        tokenizer.set_encode_special_tokens(split_special);
        Ok(TextTokenizer {
            tokenizer,
            cuts_left,
        })
    }

    pub fn vocab_size(&self) -> usize {
        self.tokenizer.get_vocab_size(true)
    }

    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }

    pub fn encode_ids(&self, text: &str, special: bool) -> Result<Vec<u32>, String> {
        let encoding = self
            .tokenizer
            .encode_fast(text, special)
            .map_err(|e| e.to_string())?;
        Ok(encoding.get_ids().to_vec())
    }

    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<Token>, String> {
        let encoding = self
            .tokenizer
            .encode(text, special)
            .map_err(|e| e.to_string())?;
        let offsets = encoding.get_offsets();
        let tokens = encoding.get_ids().iter().zip(offsets);
        Ok(tokens
            .map(|(&id, &(begin, end))| Token {
                id,
                range: Range { begin, end },
            })
            .collect())
    }

    /// With special tokens, truncated to `max_length` tokens in all by taking
    /// from the longer text, and whether anything was cut.
    pub fn encode_classifier(
        &self,
        text: &str,
        pair: Option<&str>,
        max_length: usize,
        truncate_left: Option<bool>,
    ) -> Result<(Vec<ClassifierToken>, bool), String> {
        let processor = self.tokenizer.get_post_processor();
        let added = processor.map_or(0, |p| p.added_tokens(pair.is_some()));
        if max_length < added + 1 {
            return Err(format!(
                "max_length {max_length} leaves no room besides {added} special tokens"
            ));
        }
        let encode = |text: &str| {
            let encoding = self.tokenizer.encode(text, false);
            encoding.map_err(|e| e.to_string())
        };
        let first = encode(text)?;
        let mut second = pair.map(encode).transpose()?;
        if let Some(second) = &mut second {
            second.set_type_ids(vec![1; second.len()]);
        }
        let length = first.len() + second.as_ref().map_or(0, |e| e.len());
        let cut = length + added > max_length;
        let params = TruncationParams {
            direction: match truncate_left.unwrap_or(self.cuts_left) {
                true => TruncationDirection::Left,
                false => TruncationDirection::Right,
            },
            max_length: max_length - added,
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
        };
        // The library's own truncation stops reading at max_length tokens, and so
        // cuts other pairs than its releases from 0.23.3 on.
        let (mut first, mut second) =
            truncate_encodings(first, second, &params).map_err(|e| e.to_string())?;
        first.take_overflowing();
        if let Some(second) = &mut second {
            second.take_overflowing();
        }
        let encoding = self.tokenizer.post_process(first, second, true);
        let encoding = encoding.map_err(|e| e.to_string())?;
        let tokens = encoding.get_ids().iter().zip(encoding.get_type_ids());
        Ok((
            tokens
                .map(|(&id, &type_id)| ClassifierToken { id, type_id })
                .collect(),
            cut,
        ))
    }

    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, String> {
        self.tokenizer
            .decode(ids, skip_special)
            .map_err(|e| e.to_string())
    }
}
