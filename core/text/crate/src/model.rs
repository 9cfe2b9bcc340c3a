// SPDX-License-Identifier: Apache-2.0
//! The model of a tokenizer.json, read in fewer passes than by the library's
//! own wrapper: this halves the time to read a tokenizer.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;
use tokenizers::models::TrainerWrapper;
use tokenizers::{Model, ModelWrapper, Result, Token};

/// Words whose tokens a thread caches, at some 230 bytes per word. The
/// library's default, 10,000, is no faster and costs each thread 1.4 MB more.
const REMEMBERED_WORDS: usize = 4096;

#[derive(Clone)]
pub struct FileModel(ModelWrapper);

/// What a tokenizer class sets of its model, whatever the file says.
#[derive(Deserialize)]
pub struct ModelSettings {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    unk_token: Option<String>,
    /// Of BPE: unknown characters as bytes, and one token for several of them.
    #[serde(default)]
    byte_fallback: bool,
}

impl FileModel {
    pub fn set(&mut self, settings: &ModelSettings) -> std::result::Result<(), String> {
        match (&mut self.0, settings.kind.as_str()) {
            (ModelWrapper::BPE(model), "BPE") => {
                model.dropout = None;
                model.unk_token = settings.unk_token.clone();
                model.continuing_subword_prefix = None;
                model.end_of_word_suffix = None;
                model.fuse_unk = settings.byte_fallback;
                model.byte_fallback = settings.byte_fallback;
                model.ignore_merges = false;
            }
            (ModelWrapper::WordPiece(model), "WordPiece") => {
                model.unk_token = settings.unk_token.clone().unwrap_or_default();
                model.continuing_subword_prefix = "##".to_string();
                model.max_input_chars_per_word = 100;
            }
            (ModelWrapper::Unigram(model), "Unigram") => {
                let vocab = model.iter().cloned().collect();
                *model = Unigram::from(vocab, Some(3), false).map_err(|e| e.to_string())?;
            }
            (_, kind) => return Err(format!("the tokenizer's class needs a {kind} model")),
        }
        Ok(())
    }
}

/// The fields of a model's JSON that are read; all others are ignored.
#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    name: String,
}

impl<'de> Deserialize<'de> for FileModel {
    // The wrapper builds two trees of the JSON before it reads the model. BPE,
    // the type with large vocabularies, is read directly from the text by the
    // same code; the wrapper decides about any model that this code rejects.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?.get();
        if serde_json::from_str::<Kind>(json).is_ok_and(|kind| kind.name == "BPE") {
            if let Ok(mut model) = serde_json::from_str::<BPE>(json) {
                model.resize_cache(REMEMBERED_WORDS);
                return Ok(FileModel(ModelWrapper::BPE(model)));
            }
        }
        serde_json::from_str(json)
            .map(FileModel)
            .map_err(Error::custom)
    }
}

impl Model for FileModel {
    type Trainer = TrainerWrapper;

    fn tokenize(&self, sequence: &str) -> Result<Vec<Token>> {
        self.0.tokenize(sequence)
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.0.token_to_id(token)
    }

    fn id_to_token(&self, id: u32) -> Option<String> {
        self.0.id_to_token(id)
    }

    fn get_vocab(&self) -> HashMap<String, u32> {
        self.0.get_vocab()
    }

    fn get_vocab_size(&self) -> usize {
        self.0.get_vocab_size()
    }

    fn save(&self, folder: &Path, prefix: Option<&str>) -> Result<Vec<PathBuf>> {
        self.0.save(folder, prefix)
    }

    fn get_trainer(&self) -> TrainerWrapper {
        self.0.get_trainer()
    }
}
