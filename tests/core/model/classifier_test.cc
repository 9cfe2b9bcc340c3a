// SPDX-License-Identifier: Apache-2.0
#include "core/model/classifier.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/model/decoder_classifier.h"
#include "core/model/encoder.h"
#include "core/model/vit.h"
#include "tests/core/model/encoder_config.h"

namespace mpsd::model {
namespace {

TEST(ClassifierTest, TheFamilyDecides) {
  spec::ModelConfig config = EncoderConfigOf("bert");
  auto encoder = Classifier::Load({}, config);
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  EXPECT_NE(dynamic_cast<Encoder*>(encoder->get()), nullptr);

  config.family = spec::Family::kDecoder;
  config.model_type = "llama";
  auto decoder = Classifier::Load({}, config);
  ASSERT_TRUE(decoder.ok()) << decoder.status();
  EXPECT_NE(dynamic_cast<DecoderClassifier*>(decoder->get()), nullptr);

  config.family = spec::Family::kVision;
  config.model_type = "vit";
  config.vision.image_size = 8;
  config.vision.patch_size = 4;
  auto vision = Classifier::Load({}, config);
  ASSERT_TRUE(vision.ok()) << vision.status();
  EXPECT_NE(dynamic_cast<Vit*>(vision->get()), nullptr);
}

}  // namespace
}  // namespace mpsd::model
