// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/data/token_dataset.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::data {

// The tiny models of tests/core/text/testdata.
inline std::string ModelFolder(const std::string& name) {
  return std::string(MPSD_TEST_SOURCE_DIR) + "/tests/core/text/testdata/" +
         name;
}

inline std::unique_ptr<text::Tokenizer> LoadTokenizer(
    const std::string& name = "bpe") {
  return text::Tokenizer::FromFolder(ModelFolder(name)).value();
}

// The template of "bpe": "<|user|>…<|end|>", with {% generation %} around the
// assistant's content and "<|end|>".
inline std::unique_ptr<text::ChatTemplate> LoadTemplate() {
  return text::ChatTemplate::FromFolder(ModelFolder("bpe")).value();
}

inline std::unique_ptr<text::ChatTemplate> MakeTemplate(
    const std::string& source) {
  return text::ChatTemplate::FromSource(source, "").value();
}

// Samples with these lengths; ids count up, so that each token is found again,
// and every token but each sample's first is a label.
inline std::vector<TokenSample> CountingSamples(
    const std::vector<int64_t>& lengths) {
  std::vector<TokenSample> samples;
  int32_t next = 1000;
  for (int64_t length : lengths) {
    TokenSample sample;
    for (int64_t i = 0; i < length; ++i) {
      sample.input_ids.push_back(next++);
      sample.in_loss.push_back(1);
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

// A data set of them.
inline TokenDataset CountingTokenDataset(const std::vector<int64_t>& lengths,
                                         int64_t max_length) {
  return TokenDataset(TokenArrays(CountingSamples(lengths)),
                      {.max_length = max_length}, DatasetStats(), "");
}

// A test with a folder of its own for data files.
class DataFolder : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }

 private:
  const std::string dir_ = FreshFolder("data_files").string();
};

}  // namespace mpsd::data
