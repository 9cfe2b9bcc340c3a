// SPDX-License-Identifier: Apache-2.0
#include "server/openai/job_order.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/check.h"

namespace mpsd::openai {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using Tree = nlohmann::json;

constexpr char kLeast[] = R"("model": "org/m", "training_file": "file-1")";

std::string Body(const std::string& more) {
  return std::string("{") + kLeast + (more.empty() ? "" : ", ") + more + "}";
}
JobOrder OrderOf(const std::string& more) {
  const absl::StatusOr<JobOrder> order = ReadJobOrder(Body(more));
  EXPECT_TRUE(order.ok()) << order.status();
  return order.value_or(JobOrder());
}
std::string FaultOf(const std::string& body) {
  const absl::Status fault = ReadJobOrder(body).status();
  EXPECT_TRUE(absl::IsInvalidArgument(fault)) << body;
  return std::string(fault.message());
}

jobs::NamedFile FileOf(const std::string& id, const std::string& name) {
  jobs::NamedFile file;
  file.id = id;
  file.name = name;
  file.sha256 = std::string(64, id.back());
  return file;
}
Tree SpecOf(const JobOrder& order, const PriorJob* prior = nullptr) {
  return Tree::parse(
      ToSubmit(order, FileOf("file-1", "a.jsonl"), nullptr, prior).spec_json());
}

TEST(ReadJobOrder, TheLeast) {
  const JobOrder order = OrderOf("");
  EXPECT_EQ(order.model, "org/m");
  EXPECT_EQ(order.training_file, "file-1");
  EXPECT_FALSE(order.n_epochs || order.batch_size || order.seed);
  const Tree spec = SpecOf(order);
  EXPECT_EQ(spec, Tree::parse(R"({
    "model": "org/m", "dataset": {"train": "training/a.jsonl"},
    "lora": {"r": 16, "lora_alpha": 32, "target_modules": "all-linear"},
    "training": {"assistant_only_loss": true, "learning_rate": 2e-4}})"));
}

TEST(ReadJobOrder, EachFieldHasItsPlaceInTheSpec) {
  const Tree spec = SpecOf(OrderOf(R"(
      "suffix": "mine", "seed": 7, "validation_file": null,
      "integrations": [], "hyperparameters": {"n_epochs": 2, "batch_size": 16,
      "learning_rate_multiplier": 0.5})"));
  EXPECT_EQ(spec["name"], "mine");
  EXPECT_EQ(spec["training"]["seed"], 7);
  EXPECT_EQ(spec["training"]["num_train_epochs"], 2);
  EXPECT_EQ(spec["training"]["per_device_train_batch_size"], 16);
  EXPECT_EQ(spec["training"]["auto_find_batch_size"], true);
  EXPECT_EQ(spec["training"]["learning_rate"], 1e-4);
}

TEST(ReadJobOrder, TheNewerPlaceOfHyperparametersCounts) {
  const JobOrder order = OrderOf(R"(
      "hyperparameters": {"n_epochs": 2, "batch_size": 3},
      "method": {"type": "supervised", "dpo": null, "supervised":
        {"hyperparameters": {"n_epochs": 5, "batch_size": "auto"}}})");
  EXPECT_EQ(order.n_epochs, 5);
  EXPECT_EQ(order.batch_size, 3);
  EXPECT_FALSE(OrderOf(R"("hyperparameters": {"n_epochs": "auto"})").n_epochs);
}

TEST(ReadJobOrder, FieldsOfJobJsonLieOverTheRest) {
  const Tree spec = SpecOf(OrderOf(R"("mpsd": {"device": "cpu",
      "lora": {"r": 4}, "training": {"assistant_only_loss": null}})"));
  EXPECT_EQ(spec["device"], "cpu");
  EXPECT_EQ(spec["lora"]["r"], 4);
  EXPECT_EQ(spec["lora"]["lora_alpha"], 32);
  EXPECT_FALSE(spec["training"].contains("assistant_only_loss"));
}

TEST(ReadJobOrder, WhatIsWrongIsNamed) {
  for (const auto& [more, start] : {
           std::pair<std::string, std::string>{"\"models\": 1",
                                               "models: is no"},
           {"\"seed\": 1.5", "seed: "},
           {"\"seed\": 18446744073709551615", "seed: "},
           {"\"seed\": \"auto\"", "seed: "},
           {"\"suffix\": 5", "suffix: "},
           {"\"hyperparameters\": 5", "hyperparameters: "},
           {"\"hyperparameters\": {\"n_epochs\": 0}",
            "hyperparameters.n_epochs: "},
           {"\"hyperparameters\": {\"n_epochs\": \"many\"}",
            "hyperparameters.n_epochs: "},
           {"\"hyperparameters\": {\"n_epochs\": 1e999}",
            "the request's body: "},
           {"\"hyperparameters\": {\"batch_size\": 1.5}",
            "hyperparameters.batch_size: "},
           {"\"hyperparameters\": {\"epochs\": 1}", "hyperparameters.epochs: "},
           {"\"hyperparameters\": {\"learning_rate_multiplier\": -1}",
            "hyperparameters.learning_rate_multiplier: "},
           {"\"method\": \"dpo\"", "method: "},
           {"\"method\": {\"type\": \"dpo\"}", "method.type: "},
           {"\"method\": {\"type\": [[]]}", "method.type: "},
           {"\"method\": {\"type\": \"supervised\", \"supervised\": 1}",
            "method.supervised: "},
           {"\"metadata\": []", "metadata: "},
           {"\"metadata\": {\"a\": 1}", "metadata: "},
           {"\"metadata\": {\"openai.request\": \"x\"}", "metadata: keys"},
           {"\"integrations\": [{\"type\": \"wandb\"}]", "integrations: "},
           {"\"mpsd\": [1]", "mpsd: "},
       }) {
    EXPECT_THAT(FaultOf(Body(more)), StartsWith(start)) << more;
  }
  EXPECT_THAT(FaultOf("{\"model\": \"m\"}"), StartsWith("training_file: "));
  EXPECT_THAT(FaultOf("{\"training_file\": \"m\"}"), StartsWith("model: "));
  EXPECT_THAT(FaultOf("{\"training_file\": \"m\", \"model\": null}"),
              StartsWith("model: "));
}

TEST(ReadJobOrder, SurvivesWhatIsNoOrder) {
  for (const std::string& body :
       {std::string(), std::string("[]"), std::string("nonsense"),
        std::string("{"), std::string("null"), std::string("{\"a\": \xff}"),
        std::string(100'000, '['), std::string(100'000, '{'),
        "{\"mpsd\": " + std::string(100'000, '[') + std::string(100'000, ']') +
            "}"}) {
    EXPECT_THAT(FaultOf(body), HasSubstr("expected a JSON object"));
  }
}

TEST(ToSubmit, NamesTheFilesByWhatTheyAre) {
  const jobs::NamedFile training = FileOf("file-1", "a.jsonl");
  const jobs::NamedFile validation = FileOf("file-2", "a.jsonl");
  const v1::SubmitRequest request =
      ToSubmit(OrderOf(R"("metadata": {"team": "nlp"})"), training, &validation,
               nullptr);
  EXPECT_TRUE(rpc::CheckSubmit(request).ok()) << rpc::CheckSubmit(request);
  ASSERT_EQ(request.inputs_size(), 2);
  EXPECT_EQ(request.inputs(0).path(), "training/a.jsonl");
  EXPECT_EQ(request.inputs(0).sha256(), training.sha256);
  EXPECT_EQ(request.inputs(1).path(), "validation/a.jsonl");
  EXPECT_EQ(request.inputs(1).sha256(), validation.sha256);
  const Tree spec = Tree::parse(request.spec_json());
  EXPECT_EQ(spec["dataset"]["eval"], "validation/a.jsonl");
  EXPECT_THAT(request.labels(),
              UnorderedElementsAre(Pair("openai.training_file", "file-1"),
                                   Pair("openai.validation_file", "file-2"),
                                   Pair("team", "nlp")));
}

TEST(ToSubmit, GoesOnFromAnAdapter) {
  const PriorJob prior{
      "01J00000000000000000000007", "org/base", true, {{"r", 4}}};
  const Tree spec = SpecOf(OrderOf(""), &prior);
  EXPECT_EQ(spec["model"], "org/base");
  EXPECT_EQ(spec["adapter"], "job:01J00000000000000000000007");
  EXPECT_EQ(spec["lora"], Tree::parse(R"({"r": 4})"));
  // A whole model is the new job's model, as the client has named it.
  const PriorJob whole{"01J00000000000000000000007", "org/base", false, {}};
  EXPECT_EQ(SpecOf(OrderOf(""), &whole)["model"], "org/m");
}

}  // namespace
}  // namespace mpsd::openai
