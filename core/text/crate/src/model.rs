// SPDX-License-Identifier: Apache-2.0
//! The model of a tokenizer.json, read in fewer passes than by the library's
//! own wrapper: this halves the time to read a tokenizer.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokenizers::models::bpe::BPE;
use tokenizers::models::TrainerWrapper;
use tokenizers::{Model, ModelWrapper, Result, Token};

/// Words whose tokens a thread caches, at some 230 bytes per word. The
/// library's default, 10,000, is no faster and costs each thread 1.4 MB more.
const REMEMBERED_WORDS: usize = 4096;

#[derive(Clone)]
pub struct FileModel(ModelWrapper);

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
