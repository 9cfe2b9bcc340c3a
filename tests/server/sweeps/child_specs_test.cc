// SPDX-License-Identifier: Apache-2.0
#include "server/sweeps/child_specs.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/spec/train_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::sweeps {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

json Spec(const json& training = {{"max_steps", 40}}) {
  return {{"name", "tiny"},
          {"model", "org/tiny"},
          {"dataset", {{"train", "t.jsonl"}, {"eval", "e.jsonl"}}},
          {"training", training}};
}
jobs::SubmitRequest RequestOf(const json& spec) {
  jobs::SubmitRequest request;
  request.spec_json = spec.dump();
  return request;
}
Plan PlanOf(std::vector<Parameter> parameters, int64_t eta = 0) {
  Plan plan;
  plan.parameters = std::move(parameters);
  plan.eta = eta;
  return plan;
}
const Parameter kRanks = {"lora.r", Choices{{"4", "8", "16", "32"}}};

Children Made(const json& spec, const Plan& plan) {
  auto made = MakeChildren(RequestOf(spec), plan, std::nullopt);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *std::move(made) : Children();
}
std::string Error(const json& spec, const Plan& plan) {
  const absl::Status status =
      MakeChildren(RequestOf(spec), plan, std::nullopt).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}
json SpecOf(const Children& children, size_t i) {
  return json::parse(children.requests.at(i).request.spec_json);
}

TEST(MakeChildren, EachIsNamedAndLabelledAfterItsValues) {
  jobs::SubmitRequest request = RequestOf(Spec());
  request.labels = {{"team", "a"}, {"lora.r", "mine"}};
  request.idempotency_key = "k";
  const auto made = MakeChildren(
      request,
      PlanOf({{"training.learning_rate", Choices{{"1e-4", "3e-4"}}},
              {"lora.r", Choices{{"8"}}},
              {"training.lr_scheduler_type", Choices{{"cosine"}}}}),
      std::nullopt);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->requests.size(), 2);
  EXPECT_EQ(made->name, "tiny");
  const json spec = SpecOf(*made, 1);
  EXPECT_EQ(spec["name"],
            "tiny learning_rate=0.0003 r=8 lr_scheduler_type=cosine");
  EXPECT_EQ(spec["training"]["learning_rate"], 3e-4);
  EXPECT_EQ(spec["training"]["max_steps"], 40) << "the whole schedule";
  EXPECT_EQ(spec["lora"]["r"], 8);
  const jobs::SubmitRequest& child = made->requests[1].request;
  EXPECT_THAT(child.labels,
              ElementsAre(std::pair("lora.r", "8"), std::pair("team", "a"),
                          std::pair("training.learning_rate", "0.0003"),
                          std::pair("training.lr_scheduler_type", "cosine")));
  EXPECT_EQ(child.idempotency_key, "");
  EXPECT_EQ(made->requests[1].name,
            "child 2 (learning_rate=0.0003 r=8 lr_scheduler_type=cosine)");
}

TEST(MakeChildren, FieldsOfOneNameKeepTheirPaths) {
  const Children made =
      Made(Spec(), PlanOf({{"a.r", Choices{{"1"}}}, {"b.r", Choices{{"2"}}}}));
  EXPECT_EQ(SpecOf(made, 0)["name"], "tiny a.r=1 b.r=2");
  json nameless = Spec();
  nameless.erase("name");
  EXPECT_EQ(SpecOf(Made(nameless, PlanOf({kRanks})), 0)["name"], "r=4");
}

TEST(MakeChildren, HostileValuesStayTextsOfBoundedLength) {
  const Children made = Made(
      Spec(),
      PlanOf({{"x", Choices{{"\"\\u001b[2J\\n\xe2\x80\xae\"",
                             absl::StrCat("\"", std::string(4000, 'v'), "\""),
                             "{\"a\": [1]}", "\xff"}}}}));
  for (size_t i = 0; i < 4; ++i) {
    const std::string name = SpecOf(made, i)["name"];
    EXPECT_LE(name.size(), limits::kNameBytes);
    EXPECT_EQ(name.find('\x1b'), std::string::npos);
    EXPECT_EQ(name.find('\n'), std::string::npos);
    EXPECT_EQ(name.find("\xe2\x80\xae"), std::string::npos);
    EXPECT_LE(made.requests[i].request.labels.at("x").size(),
              limits::kJobLabelValueBytes);
  }
  EXPECT_EQ(SpecOf(made, 2)["x"], json({{"a", {1}}}));
}

TEST(MakeChildren, WhatCannotVaryIsRefused) {
  for (const char* field :
       {"name", "dataset", "dataset.eval", "training",
        "training.metric_for_best_model", "training.greater_is_better"}) {
    EXPECT_THAT(Error(Spec(), PlanOf({{field, Choices{{"1"}}}})),
                HasSubstr("cannot vary"))
        << field;
  }
  for (const char* field : {"training.max_steps", "training.num_train_epochs",
                            "training.eval_steps", "training.save_steps"}) {
    const Parameter parameter = {field, Choices{{"1", "2"}}};
    EXPECT_THAT(Error(Spec(), PlanOf({parameter}, 2)), HasSubstr("cannot vary"))
        << field;
    EXPECT_EQ(Made(Spec(), PlanOf({parameter})).requests.size(), 2) << field;
  }
  for (const char* field : {".a", "a..b", "a."}) {
    EXPECT_THAT(Error(Spec(), PlanOf({{field, Choices{{"1"}}}})),
                HasSubstr("expected the path of a field"))
        << field;
  }
  EXPECT_THAT(Error(Spec(), PlanOf({{"model.x", Choices{{"1"}}}})),
              HasSubstr("'model' is no object"));
}

TEST(MakeChildren, AnEvaluationAndACheckpointFallOnEachRung) {
  const Children made = Made(Spec(), PlanOf({kRanks}, 2));
  EXPECT_THAT(made.plan.rungs, ElementsAre(10, 20));
  EXPECT_EQ(SpecOf(made, 3)["training"],
            (json{{"max_steps", 40}, {"eval_steps", 10}, {"save_steps", 10}}));
  // Those of job.json stay where they meet every rung.
  const Children finer =
      Made(Spec({{"max_steps", 40}, {"eval_steps", 5}, {"save_steps", 15}}),
           PlanOf({kRanks}, 2));
  EXPECT_EQ(SpecOf(finer, 0)["training"]["eval_steps"], 5);
  EXPECT_EQ(SpecOf(finer, 0)["training"]["save_steps"], 10);
  // Without rungs nobody touches them.
  EXPECT_EQ(SpecOf(Made(Spec(), PlanOf({kRanks})), 0)["training"],
            (json{{"max_steps", 40}}));
}

TEST(MakeChildren, RungsMayBeNamed) {
  Plan plan = PlanOf({kRanks}, 4);
  plan.rungs = {6, 9};
  const Children made = Made(Spec(), plan);
  EXPECT_EQ(SpecOf(made, 0)["training"]["save_steps"], 3);
  // Then the number of steps may be open.
  json epochs = Spec({{"num_train_epochs", 2}});
  EXPECT_THAT(Made(epochs, plan).plan.rungs, ElementsAre(6, 9));
  plan.rungs.clear();
  EXPECT_THAT(Error(epochs, plan), HasSubstr("set training.max_steps"));
  for (const std::vector<int64_t>& bad :
       {std::vector<int64_t>{0}, {-1}, {6, 6}, {9, 6}}) {
    plan.rungs = bad;
    EXPECT_THAT(Error(Spec(), plan), HasSubstr("each beyond the one before"));
  }
  plan.rungs = {40};
  EXPECT_THAT(Error(Spec(), plan), HasSubstr("step 40 does not come before"));
  plan.rungs = std::vector<int64_t>(17, 1);
  EXPECT_THAT(Error(Spec(), plan), HasSubstr("at most 16"));
  plan = PlanOf({kRanks});
  plan.rungs = {6};
  EXPECT_THAT(Error(Spec(), plan), HasSubstr("eta"));
}

TEST(MakeChildren, EtaNeedsSomethingToThinOut) {
  EXPECT_THAT(Error(Spec(), PlanOf({kRanks}, 1)), HasSubstr("must be 2 to 16"));
  EXPECT_THAT(Error(Spec(), PlanOf({kRanks}, 17)), HasSubstr("must be 2 to"));
  EXPECT_THAT(Error(Spec(), PlanOf({kRanks}, -1)), HasSubstr("must be 2 to"));
  EXPECT_THAT(Error(Spec(), PlanOf({kRanks}, 5)), HasSubstr("nothing to thin"));
  json blind = Spec();
  blind["dataset"].erase("eval");
  EXPECT_THAT(Error(blind, PlanOf({kRanks}, 2)), HasSubstr("no dataset.eval"));
}

TEST(MakeChildren, TheMetricIsTheJobsOrTheLoss) {
  EXPECT_EQ(Made(Spec(), PlanOf({kRanks})).plan.metric, "loss");
  EXPECT_FALSE(Made(Spec(), PlanOf({kRanks})).plan.greater_is_better);
  json best = Spec({{"max_steps", 40},
                    {"load_best_model_at_end", true},
                    {"metric_for_best_model", "eval_accuracy"}});
  EXPECT_EQ(Made(best, PlanOf({kRanks})).plan.metric, "accuracy");
  EXPECT_TRUE(Made(best, PlanOf({kRanks})).plan.greater_is_better);
  Plan plan = PlanOf({kRanks});
  plan.metric = "eval_f1";
  EXPECT_EQ(Made(Spec(), plan).plan.metric, "f1");
  json blind = Spec();
  blind["dataset"].erase("eval");
  EXPECT_EQ(Made(blind, PlanOf({kRanks})).plan.metric, "train_loss");
  EXPECT_FALSE(Made(blind, PlanOf({kRanks})).plan.greater_is_better);
  EXPECT_THAT(Error(blind, plan), HasSubstr("without dataset.eval"));
  plan = PlanOf({kRanks}, 2);
  plan.metric = "train_loss";
  EXPECT_THAT(Error(Spec(), plan), HasSubstr("known at the end alone"));
  EXPECT_FALSE(MakeChildren(RequestOf(Spec()), PlanOf({kRanks}), false)
                   ->plan.greater_is_better);
  EXPECT_TRUE(MakeChildren(RequestOf(Spec()), PlanOf({kRanks}), true)
                  ->plan.greater_is_better);
}

TEST(MakeChildren, WhatIsNoJobIsRefusedFirst) {
  EXPECT_THAT(Error(json{{"modle", 1}}, PlanOf({kRanks})), HasSubstr("modle"));
  jobs::SubmitRequest study = RequestOf(Spec());
  study.kind = jobs::JobKind::kSmoke;
  EXPECT_TRUE(absl::IsInvalidArgument(
      MakeChildren(study, PlanOf({kRanks}), std::nullopt).status()));
  jobs::SubmitRequest labelled = RequestOf(Spec());
  for (size_t i = 0; i < limits::kJobLabels; ++i) {
    labelled.labels[absl::StrCat("l", i)] = "v";
  }
  const absl::Status status =
      MakeChildren(labelled, PlanOf({kRanks}), std::nullopt).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("at most 64"));
}

Choices Numbers(int count) {
  Choices choices;
  for (int i = 1; i <= count; ++i) choices.values.push_back(absl::StrCat(i));
  return choices;
}

// A request of 10 MB would be 60,000,000 files in memory.
TEST(MakeChildren, UploadedFilesAreBoundedForAllChildrenTogether) {
  jobs::SubmitRequest request = RequestOf(Spec());
  request.inputs.assign(2000, {"d/a.png", std::string(64, 'a')});
  EXPECT_TRUE(
      MakeChildren(request, PlanOf({{"lora.r", Numbers(500)}}), std::nullopt)
          .ok());
  request.inputs.push_back({"d/b.png", std::string(64, 'a')});
  EXPECT_THAT(
      MakeChildren(request, PlanOf({{"lora.r", Numbers(500)}}), std::nullopt)
          .status()
          .message(),
      HasSubstr("500 children with 2001 uploaded files each have 1000500 "
                "together, at most 1000000"));
}

TEST(MakeChildren, SpecsAreBoundedForAllChildrenTogether) {
  json spec = Spec();
  spec["dataset"]["train"] = json::array();
  for (int i = 0; i < 10'000; ++i) {
    spec["dataset"]["train"].push_back(absl::StrCat("t", i, ".jsonl"));
  }
  EXPECT_EQ(Made(spec, PlanOf({{"lora.r", Numbers(200)}})).values.size(), 200);
  EXPECT_THAT(Error(spec, PlanOf({{"lora.r", Numbers(500)}})),
              HasSubstr("have more than 67108864 bytes together"));
}

}  // namespace
}  // namespace mpsd::sweeps
