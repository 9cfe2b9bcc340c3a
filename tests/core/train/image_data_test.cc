// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/tensorfile/safetensors.h"
#include "core/train/class_data.h"
#include "tests/core/train/class_job.h"

namespace mpsd::train {
namespace {

using testing::HasSubstr;
using testing_support::RecordingObserver;

// Images that are bright above or below, and a tiny ViT from scratch.
class ImageJob : public ClassJob {
 public:
  explicit ImageJob(const std::string& name) : ClassJob(name) {
    Write("vit/config.json", json{{"model_type", "vit"},
                                  {"hidden_size", 32},
                                  {"intermediate_size", 64},
                                  {"num_hidden_layers", 2},
                                  {"num_attention_heads", 4},
                                  {"image_size", 16},
                                  {"patch_size", 4},
                                  {"num_channels", 1}}
                                 .dump());
    WriteImages("train.safetensors", 48, 1);
    WriteImages("eval.safetensors", 16, 2);
    job = {{"model", "vit"},
           {"task", "IMAGE_CLS"},
           {"fine_tune_type", "full"},
           {"from_scratch", true},
           {"dataset",
            {{"train", "train.safetensors"}, {"eval", "eval.safetensors"}}},
           {"augmentation", {{"crop_scale_min", 0.8}}},
           {"training",
            {{"max_steps", 30},
             {"per_device_train_batch_size", 8},
             {"learning_rate", 2e-3},
             {"save_steps", 10}}},
           {"device", "cpu"}};
  }

  void WriteImages(const std::string& name, int64_t count, uint64_t seed) {
    at::Generator generator = at::detail::createCPUGenerator(seed);
    at::Tensor images = at::rand({count, 16, 16}, generator, at::kFloat) * 100;
    const at::Tensor labels = at::arange(count).remainder(2);
    for (int64_t i = 0; i < count; ++i) {
      images[i].narrow(0, i % 2 == 0 ? 0 : 8, 8).add_(150);
    }
    const absl::Status s = tensorfile::WriteSafetensors(
        path() / name, {{"images", images.to(at::kByte)}, {"labels", labels}});
    ASSERT_TRUE(s.ok()) << s;
  }
};

TEST(ImageDataTest, ColumnsOfDataWithoutColumnsAreSaid) {
  ImageJob job("image_columns");
  job.job["dataset"]["image_column"] = "picture";
  job.job["dataset"]["label_column"] = "kind";
  job.job["training"]["max_steps"] = 1;
  RecordingObserver observer;
  ASSERT_TRUE(job.Train("out", observer).ok());
  EXPECT_THAT(
      observer.warnings(),
      testing::IsSupersetOf(
          {HasSubstr("dataset.image_column has no effect: image folders"),
           HasSubstr("dataset.label_column has no effect: image folders")}));
}

TEST(ImageDataTest, AVisionTransformerLearnsFromScratch) {
  ImageJob job("image_run");
  job.job["dataset"]["predict"] = "eval.safetensors";
  auto result = job.Train("out");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->metrics.at(0).first, "accuracy");
  EXPECT_GE(result->metrics.at(0).second, 0.9);
  const json config = job.Json("out/model/config.json");
  EXPECT_EQ(config["architectures"][0], "ViTForImageClassification");
  EXPECT_EQ(config["id2label"], json({{"0", "0"}, {"1", "1"}}));
  // From scratch there was none; inference needs it.
  EXPECT_EQ(job.Json("out/model/preprocessor_config.json")["size"]["height"],
            16);
  auto weights = *tensorfile::SafetensorsFile::Open(
      job.path() / "out/model/model.safetensors");
  EXPECT_TRUE(weights->entries().contains(
      "vit.encoder.layer.0.attention.attention.query.weight"));
  EXPECT_THAT(job.Bytes("out/predictions.tsv"), HasSubstr("\n15\t"));
}

TEST(ImageDataTest, AugmentationResumesBitForBit) {
  ImageJob job("image_resume");
  ASSERT_TRUE(job.Train("whole").ok());
  RecordingObserver stopped;
  stopped.stop_after = 7;
  ASSERT_TRUE(job.Train("parts", stopped).ok());
  ASSERT_TRUE(job.Train("parts").ok());
  EXPECT_EQ(job.Bytes("parts/model/model.safetensors"),
            job.Bytes("whole/model/model.safetensors"));
}

TEST(ImageDataTest, LoraAndHeadGoOnFromAModel) {
  ImageJob job("image_lora");
  ASSERT_TRUE(job.Train("full").ok());
  job.job["model"] = "full/model";
  job.job["from_scratch"] = false;
  job.job["fine_tune_type"] = "lora";
  RecordingObserver lora, head;
  auto adapted = job.Train("lora", lora);
  ASSERT_TRUE(adapted.ok()) << adapted.status();
  const json config = job.Json("lora/adapter/adapter_config.json");
  EXPECT_TRUE(config["task_type"].is_null());  // PEFT has no task for images
  EXPECT_EQ(config["target_modules"], json({"q_proj", "v_proj"}));
  job.job["fine_tune_type"] = "head";
  ASSERT_TRUE(job.Train("head", head).ok());
  EXPECT_NEAR(lora.evals[0].eval_loss, head.evals[0].eval_loss, 1e-6);
}

TEST(ImageDataTest, ASplitIsTakenOffTheTrainingImages) {
  ImageJob job("image_split");
  job.job["dataset"].erase("eval");
  job.job["dataset"]["validation_split"] = 0.25;
  job.job["training"]["max_steps"] = 1;
  auto result = job.Train("out");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(job.Json("out/run.json")["train"]["rows"], 36);
  EXPECT_EQ(job.Json("out/run.json")["eval"]["rows"], 12);
}

TEST(ImageDataTest, ImagesOfAnotherKindAreRefusedByName) {
  ImageJob job("image_bad");
  job.job["dataset"]["train"] = "vit/config.json";
  const absl::Status status = job.Train("out").status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("config.json"));
}

}  // namespace
}  // namespace mpsd::train
