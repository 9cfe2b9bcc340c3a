// SPDX-License-Identifier: Apache-2.0
#include "core/train/inputs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace mpsd::train {
namespace {

constexpr int64_t kNo = base::kIgnoreIndex;

data::Batch TwoRows() {
  data::Batch batch;
  batch.rows = 2;
  batch.length = 4;
  batch.input_ids = {5, 6, 7, 8, 9, 10, 0, 0};
  batch.labels = {kNo, 6, kNo, 8, kNo, 10, kNo, kNo};
  batch.position_ids = {0, 1, 2, 3, 0, 1, 0, 0};
  batch.segment_ids = {0, 0, 0, 0, 0, 0, -1, -1};
  batch.label_tokens = 3;
  return batch;
}

const device::Device& Cpu() {
  static const auto* device = device::OpenCpu()->release();
  return *device;
}

// The host's memory under the name of MPS.
class CpuAsMps : public device::Device {
 public:
  const device::Traits& traits() const override {
    return backend::TraitsOf(backend::Choice::kMps);
  }
  at::Device torch_device() const override { return at::kCPU; }
  std::string name() const override { return "mps"; }
  std::string description() const override { return ""; }
  void Synchronize() override {}
  void Commit() override {}
  device::Memory GetMemory() const override { return {}; }
  void ResetPeak() override {}
  void EmptyCache() override {}
  void Seed(uint64_t) override {}
  at::Tensor RngState() const override { return {}; }
  void SetRngState(const at::Tensor&) override {}
};

BatchInputs InputsOf(const data::Batch& batch,
                     const device::Device& device = Cpu()) {
  return LanguageInputs({&batch, 1}, device).batches[0];
}

at::Tensor Longs(std::vector<int64_t> values) { return at::tensor(values); }

TEST(InputsTest, EachLabelIsPredictedByTheTokenBefore) {
  const BatchInputs inputs = InputsOf(TwoRows());
  EXPECT_EQ(inputs.labels.count, 3);
  EXPECT_TRUE(at::equal(inputs.labels.rows.narrow(0, 0, 3), Longs({0, 2, 4})));
  EXPECT_TRUE(
      at::equal(inputs.labels.targets.narrow(0, 0, 3), Longs({6, 8, 10})));
}

// How many rows a selection of so many labels has.
int64_t SizeFor(int64_t labels, const device::Device& device) {
  data::Batch batch;
  batch.rows = 1;
  batch.length = labels + 1;
  batch.input_ids.assign(batch.length, 1);
  batch.labels.assign(batch.length, 1);
  batch.labels[0] = kNo;
  const BatchInputs inputs = InputsOf(batch, device);
  EXPECT_EQ(inputs.labels.count, labels);
  return inputs.labels.rows.size(0);
}

TEST(InputsTest, TheSelectionIsPaddedToFewSizes) {
  for (const auto& [labels, size] : {std::pair<int64_t, int64_t>{1, 16},
                                     {16, 16},
                                     {17, 32},
                                     {33, 64},
                                     {65, 128},
                                     {129, 192},
                                     {1000, 1024},
                                     {1025, 1088}}) {
    EXPECT_EQ(SizeFor(labels, Cpu()), size) << labels;
  }
  for (const auto& [labels, size] : {std::pair<int64_t, int64_t>{1, 16},
                                     {17, 32},
                                     {33, 64},
                                     {65, 128},
                                     {129, 192},
                                     {193, 256},
                                     {1025, 1536},
                                     {30'000, 32'766},
                                     {32'766, 32'766}}) {
    EXPECT_EQ(SizeFor(labels, CpuAsMps()), size) << labels;
  }
  data::Batch batch = TwoRows();
  const BatchInputs inputs = InputsOf(batch);
  EXPECT_EQ((inputs.labels.targets == base::kIgnoreIndex).sum().item<int64_t>(),
            16 - 3);
}

TEST(InputsTest, SegmentsAndPositionsAreHandedOverForPackedRowsOnly) {
  data::Batch batch = TwoRows();
  EXPECT_FALSE(InputsOf(batch).decoder.segment_ids.defined());
  EXPECT_FALSE(InputsOf(batch).decoder.position_ids.defined());
  batch.packed = true;
  const BatchInputs inputs = InputsOf(batch);
  EXPECT_EQ(inputs.decoder.segment_ids[1][2].item<int64_t>(), -1);
  EXPECT_EQ(inputs.decoder.position_ids[0][3].item<int64_t>(), 3);
  EXPECT_EQ(inputs.decoder.segment_lengths, (std::vector<int64_t>{4, 2, 2}));
}

// All micro-batches' numbers, each with its own shape, out of one buffer.
TEST(InputsTest, AStepIsOneBuffer) {
  std::vector<data::Batch> batches = {TwoRows(), TwoRows(), TwoRows()};
  batches[1].packed = true;
  batches[1].input_ids[0] = 77;
  batches[2].labels.assign(8, kNo);  // is not copied at all
  const StepInputs inputs = LanguageInputs(batches, Cpu());
  ASSERT_EQ(inputs.host.size(), 1u);
  for (const size_t i : {0, 1}) {
    const BatchInputs& b = inputs.batches[i];
    std::vector<at::Tensor> all = {b.decoder.input_ids, b.labels.rows,
                                   b.labels.targets};
    if (i == 1) {
      all.push_back(b.decoder.position_ids);
      all.push_back(b.decoder.segment_ids);
    }
    for (const at::Tensor& t : all) {
      EXPECT_TRUE(t.is_alias_of(inputs.host[0]));
      EXPECT_TRUE(t.is_contiguous());
      EXPECT_EQ(t.storage_offset() * t.itemsize() % 256, 0);
    }
    EXPECT_TRUE(
        at::equal(b.decoder.input_ids.flatten(), Longs(batches[i].input_ids)));
  }
  EXPECT_FALSE(inputs.batches[2].decoder.input_ids.defined());
  EXPECT_TRUE(LanguageInputs({&batches[2], 1}, Cpu()).host.empty());
}

TEST(InputsTest, ClassifiersHaveABufferOfFloatsBeside) {
  data::Batch batch;
  batch.rows = 2;
  batch.length = 3;
  batch.input_ids = {1, 2, 3, 4, 5, 0};
  batch.lengths = {3, 2};
  batch.token_type_ids = {0, 0, 1, 0, 1, 0};
  batch.targets = {0.5f, 1, 2, 3};
  data::Batch labelled = batch;
  labelled.targets.clear();
  labelled.classes = {1, 0};
  const std::vector<data::Batch> batches = {batch, labelled};
  const StepInputs inputs = ClassInputs(batches, 2, Cpu());
  ASSERT_EQ(inputs.host.size(), 2u);
  const BatchInputs &a = inputs.batches[0], &b = inputs.batches[1];
  EXPECT_TRUE(a.classifier.padded);
  EXPECT_TRUE(at::equal(a.targets, at::tensor(batch.targets).view({2, 2})));
  EXPECT_TRUE(at::equal(b.targets, Longs({1, 0})));
  EXPECT_TRUE(at::equal(b.classifier.lengths, Longs({3, 2})));
  EXPECT_TRUE(at::equal(b.classifier.token_type_ids.flatten(),
                        Longs(batch.token_type_ids)));
}

TEST(InputsTest, WhatIsLargeGoesInSeveralUploads) {
  data::Batch image;
  image.rows = 1;
  image.pixels.resize(kUploadBytes / sizeof(float) / 2 + 1);
  const std::vector<data::Batch> images(3, image);
  EXPECT_EQ(FirstUpload(images).size(), 1u);
  const std::vector<data::Batch> texts(1000, TwoRows());
  EXPECT_EQ(FirstUpload(texts).size(), 1000u);
  EXPECT_TRUE(FirstUpload({}).empty());
}

}  // namespace
}  // namespace mpsd::train
