// SPDX-License-Identifier: Apache-2.0
//! A tokenizer.json and the tokens that its folder adds to it.

use tokenizers::{AddedToken, Tokenizer};

use crate::abi::Range;

#[repr(C)]
pub struct Token {
    id: u32,
    range: Range,
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

    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, String> {
        self.tokenizer
            .decode(ids, skip_special)
            .map_err(|e| e.to_string())
    }
}
