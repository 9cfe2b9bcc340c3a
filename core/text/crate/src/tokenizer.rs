// SPDX-License-Identifier: Apache-2.0
//! A tokenizer.json and the tokens that its folder adds to it.

use tokenizers::utils::truncation::{
    truncate_encodings, TruncationDirection, TruncationParams, TruncationStrategy,
};
use tokenizers::{AddedToken, Encoding, PostProcessor, Tokenizer};

use crate::abi::Range;

#[repr(C)]
pub struct Token {
    id: u32,
    range: Range,
}

/// A token of a text, or of a pair, as a classifier takes it.
#[repr(C)]
pub struct ClassifierToken {
    id: u32,
    type_id: u32,
}

pub struct TextTokenizer {
    tokenizer: Tokenizer,
}

impl TextTokenizer {
    /// `added`: a JSON array of two arrays of tokens. Those of the first take
    /// the place of what tokenizer.json says about them, those of the second
    /// are added where neither has them.
    pub fn new(json: &[u8], added: &[u8], split_special: bool) -> Result<Self, String> {
        let mut tokenizer = Tokenizer::from_bytes(json).map_err(|e| e.to_string())?;
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
        Ok(TextTokenizer { tokenizer })
    }

    pub fn vocab_size(&self) -> usize {
        self.tokenizer.get_vocab_size(true)
    }

    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
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

    /// With special tokens, cut to `max_length` tokens in all by taking from the
    /// longer text, and whether anything was cut: `Tokenizer::encode` with
    /// truncation "longest_first", which would have to be set in the tokenizer.
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
                "max_length {max_length} leaves no room beside {added} special tokens"
            ));
        }
        let first = self.plain(text, 0)?;
        let second = pair.map(|p| self.plain(p, 1)).transpose()?;
        let length = first.len() + second.as_ref().map_or(0, Encoding::len);
        let params = TruncationParams {
            direction: match truncate_left {
                true => TruncationDirection::Left,
                false => TruncationDirection::Right,
            },
            max_length: max_length - added,
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
        };
        let (first, second) =
            truncate_encodings(first, second, &params).map_err(|e| e.to_string())?;
        let encoding = self
            .tokenizer
            .post_process(first, second, true)
            .map_err(|e| e.to_string())?;
        let types = encoding.get_type_ids();
        let tokens = encoding.get_ids().iter().zip(types);
        Ok((
            tokens
                .map(|(&id, &type_id)| ClassifierToken { id, type_id })
                .collect(),
            length + added > max_length,
        ))
    }

    /// One text's tokens before the post-processor.
    fn plain(&self, text: &str, type_id: u32) -> Result<Encoding, String> {
        let mut encoding = self
            .tokenizer
            .encode(text, false)
            .map_err(|e| e.to_string())?;
        encoding.set_type_ids(vec![type_id; encoding.len()]);
        Ok(encoding)
    }

    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, String> {
        self.tokenizer
            .decode(ids, skip_special)
            .map_err(|e| e.to_string())
    }
}
