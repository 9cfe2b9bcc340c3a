// SPDX-License-Identifier: Apache-2.0
#include "server/logbook/read_manifest.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::logbook {
namespace {

using ::testing::IsEmpty;

std::string Hash(char digit) { return std::string(64, digit); }

v1::Record Read(const std::string& text) {
  v1::Record record;
  ReadManifest(text, record);
  return record;
}

TEST(ReadManifest, TellsWhatARunWasDoneWith) {
  const v1::Record record =
      Read(absl::StrCat(R"({
    "mpsd_version": "0.1.0", "torch_version": "2.6.0",
    "operating_system": "macOS 15.1", "processor": "Apple M2",
    "device": "mps", "device_description": "Apple M2, 8 cores",
    "environment": {"OMP_NUM_THREADS": "8", "ODD": 3},
    "attention": {"training": {"forward": "flash", "backward": "blocked"},
                  "evaluation": null},
    "gradients": "explicit", "dtype": "bfloat16",
    "model": {"name": "m", "sha256": {"a.safetensors": ")",
                        Hash('a'), R"("}},
    "train": {"sha256": ")",
                        Hash('b'), R"(", "rows": 100, "tokens": 5000},
    "eval": {"sha256": ")",
                        Hash('c'), R"("},
    "micro_batch": {"rows": 4, "accumulation": 2},
    "trainable_parameters": 12345, "total_steps": 50,
    "memory": {"peak_allocated_bytes": 7000, "peak_driver_allocated_bytes": null,
               "peak_footprint_bytes": 9000},
    "cpu_fallback_ops": {"aten::svd": 3}})"));
  const v1::RunEnvironment& environment = record.environment();
  EXPECT_EQ(environment.torch_version(), "2.6.0");
  EXPECT_EQ(environment.worker_version(), "0.1.0");
  EXPECT_EQ(environment.operating_system(), "macOS 15.1");
  EXPECT_EQ(environment.processor(), "Apple M2");
  EXPECT_EQ(environment.device(), "mps");
  EXPECT_EQ(environment.dtype(), "bfloat16");
  EXPECT_EQ(environment.attention(), "blocked, flash");
  EXPECT_EQ(environment.gradients(), "explicit");
  ASSERT_EQ(environment.variables_size(), 1);
  EXPECT_EQ(environment.variables().at("OMP_NUM_THREADS"), "8");
  EXPECT_EQ(record.data().train_sha256(), Hash('b'));
  EXPECT_EQ(record.data().eval_sha256(), Hash('c'));
  EXPECT_EQ(record.data().rows(), 100);
  EXPECT_EQ(record.data().tokens(), 5000);
  EXPECT_EQ(record.data().model_sha256().at("a.safetensors"), Hash('a'));
  EXPECT_EQ(record.shape().chosen_batch_size(), 4);
  EXPECT_EQ(record.shape().trainable_parameters(), 12345);
  EXPECT_EQ(record.shape().total_steps(), 50);
  EXPECT_EQ(record.memory().peak_allocated_bytes(), 7000);
  EXPECT_FALSE(record.memory().has_peak_driver_allocated_bytes());
  EXPECT_EQ(record.memory().peak_footprint_bytes(), 9000);
  EXPECT_EQ(record.fallbacks().ops().at("aten::svd"), 3);
}

TEST(ReadManifest, WhatMakesNoSenseIsLeftOut) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("3"),
        std::string("\xff\xfe"), std::string(100'000, '['),
        std::string(R"({"device": ["mps"], "memory": 3, "model": [],
          "train": "x", "environment": [1], "attention": {"training": 7},
          "cpu_fallback_ops": {"a": "b"}, "total_steps": 1.5,
          "micro_batch": null})")}) {
    const v1::Record record = Read(text);
    EXPECT_EQ(record.environment().device(), "");
    EXPECT_FALSE(record.memory().has_peak_allocated_bytes());
    EXPECT_THAT(record.fallbacks().ops(), IsEmpty());
    EXPECT_EQ(record.data().train_sha256(), "");
    EXPECT_EQ(record.shape().total_steps(), 0);
  }
}

TEST(ReadManifest, WhatIsMuchIsCut) {
  std::string variables, files;
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&variables, i ? "," : "", "\"V", i, "\":\"x\"");
    absl::StrAppend(&files, i ? "," : "", "\"f", i, "\":\"", Hash('a'), "\"");
  }
  const v1::Record record = Read(absl::StrCat(
      "{\"environment\":{", variables, "},\"model\":{\"sha256\":{", files,
      "}},\"device\":\"", std::string(10'000, 'x'),
      "\",\"dtype\":\"a\\u001b[2J", "\",\"train\":{\"sha256\":\"short\"}}"));
  EXPECT_EQ(record.environment().variables_size(), 100);
  EXPECT_EQ(record.data().model_sha256_size(), 100);
  EXPECT_LE(record.environment().device().size(), 1024u);
  EXPECT_EQ(record.environment().dtype(), "a\\x1b[2J");
  EXPECT_EQ(record.data().train_sha256(), "");
}

}  // namespace
}  // namespace mpsd::logbook
