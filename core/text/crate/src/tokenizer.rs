// SPDX-License-Identifier: Apache-2.0
//! A tokenizer.json and the tokens that its folder adds to it.

use std::sync::{Arc, Mutex};

use tokenizers::utils::truncation::{TruncationDirection, TruncationParams, TruncationStrategy};
use tokenizers::{
    AddedToken, DecoderWrapper, EncodeInput, NormalizerWrapper, PostProcessor,
    PostProcessorWrapper, PreTokenizerWrapper, TokenizerImpl,
};

use crate::model::FileModel;
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

/// A truncating tokenizer, with its length and its side (left or not).
type Cutting = (usize, bool, Arc<Tokenizer>);

pub struct TextTokenizer {
    tokenizer: Tokenizer,
    cutting: Mutex<Option<Cutting>>,
}

impl TextTokenizer {
    /// `added`: a JSON array of two arrays of tokens. Tokens of the first
    /// replace those of tokenizer.json; tokens of the second are added if
    /// neither tokenizer.json nor the first has them.
    pub fn new(json: &[u8], added: &[u8], split_special: bool) -> Result<Self, String> {
        let mut tokenizer: Tokenizer = serde_json::from_slice(json).map_err(|e| e.to_string())?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|e| e.to_string())?;
        let (declared, named): (Vec<AddedToken>, Vec<AddedToken>) =
            serde_json::from_slice(added).map_err(|e| e.to_string())?;
        tokenizer.add_tokens(declared).map_err(|e| e.to_string())?;
        let known = tokenizer.get_added_vocabulary().get_vocab();
        let missing: Vec<AddedToken> = named
            .into_iter()
            .filter(|t| !known.contains_key(&t.content))
            .collect();
        tokenizer.add_tokens(missing).map_err(|e| e.to_string())?;
        tokenizer.set_encode_special_tokens(split_special);
        Ok(TextTokenizer {
            tokenizer,
            cutting: Mutex::new(None),
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
        truncate_left: bool,
    ) -> Result<(Vec<ClassifierToken>, bool), String> {
        let processor = self.tokenizer.get_post_processor();
        let added = processor.map_or(0, |p| p.added_tokens(pair.is_some()));
        if max_length < added + 1 {
            return Err(format!(
                "max_length {max_length} leaves no room besides {added} special tokens"
            ));
        }
        let input = || match pair {
            Some(pair) => EncodeInput::from((text, pair)),
            None => EncodeInput::from(text),
        };
        let cutting = self.cutting(max_length, truncate_left)?;
        // encode_fast would lose the token types if no post-processor sets
        // them.
        let encoding = cutting.encode(input(), true).map_err(|e| e.to_string())?;
        // The tokenizer stops reading at max_length tokens and truncates
        // afterwards: with exactly max_length tokens it does not report whether
        // unread text was left, so the whole text is encoded to find out.
        let mut cut = !encoding.get_overflowing().is_empty();
        if !cut && added == 0 && encoding.len() == max_length {
            let whole = self.tokenizer.encode(input(), true);
            cut = whole.map_err(|e| e.to_string())?.len() > max_length;
        }
        let tokens = encoding.get_ids().iter().zip(encoding.get_type_ids());
        Ok((
            tokens
                .map(|(&id, &type_id)| ClassifierToken { id, type_id })
                .collect(),
            cut,
        ))
    }

    /// A copy of the tokenizer that truncates, as set up by Transformers. Which
    /// of two long texts loses the odd token depends on where the tokenizer
    /// stops reading, so truncating a finished encoding could give another
    /// result.
    fn cutting(&self, max_length: usize, left: bool) -> Result<Arc<Tokenizer>, String> {
        let mut cached = self.cutting.lock().map_err(|e| e.to_string())?;
        if let Some((length, is_left, tokenizer)) = &*cached {
            if (*length, *is_left) == (max_length, left) {
                return Ok(tokenizer.clone());
            }
        }
        let mut tokenizer = self.tokenizer.clone();
        let params = TruncationParams {
            direction: match left {
                true => TruncationDirection::Left,
                false => TruncationDirection::Right,
            },
            max_length,
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
        };
        tokenizer
            .with_truncation(Some(params))
            .map_err(|e| e.to_string())?;
        let tokenizer = Arc::new(tokenizer);
        *cached = Some((max_length, left, tokenizer.clone()));
        Ok(tokenizer)
    }

    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, String> {
        self.tokenizer
            .decode(ids, skip_special)
            .map_err(|e| e.to_string())
    }
}
