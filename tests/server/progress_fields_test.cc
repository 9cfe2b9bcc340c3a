// SPDX-License-Identifier: Apache-2.0
// What a worker reports of a step reaches the database and the API whole.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/reflection.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "core/wire/messages.h"
#include "mpsd/v1/jobs.pb.h"
#include "nlohmann/json.hpp"
#include "server/jobs/meters.h"
#include "server/rpc/convert.h"
#include "server/store/job_rows.h"

namespace mpsd {
namespace {

using nlohmann::json;
using Names = std::set<std::string>;

// Every member with a value that is not its default.
wire::Progress FullReport() {
  wire::Progress p;
  // A new member does not compile here: it belongs into the report below.
  auto& [step, total_steps, epoch, loss, learning_rate, grad_norm, tokens,
         label_tokens, seconds, padded_tokens, data_wait_seconds, device,
         memory, cpu_fallback_ops, device_utilization_ratio, metrics] = p;
  step = 1;
  total_steps = 2;
  epoch = 0.5;
  loss = 3;
  learning_rate = 4;
  grad_norm = 5;
  tokens = 6;
  label_tokens = 3;
  seconds = 7;
  padded_tokens = 8;
  data_wait_seconds = 1;
  device = "mps";
  auto& [current, driver, recommended, footprint, peak] = memory;
  current = 1, driver = 2, recommended = 3, footprint = 4, peak = 5;
  cpu_fallback_ops = {{"aten::a", 2}};
  device_utilization_ratio = 0.75;
  metrics = {{"rewards/margins", 0.5}};
  return p;
}

// The names of `object`, those of its member "memory" among them.
Names NamesOf(const json& object) {
  Names names;
  for (const auto& [name, value] : object.items()) {
    if (name == "memory") {
      names.merge(NamesOf(value));
    } else {
      names.insert(name);
    }
  }
  return names;
}

// What a step's report is called in the daemon, which adds two of its own.
Names Expected() {
  static const std::map<std::string, std::string> kOthers = {
      {"seconds", "step_seconds"},
      {"padded_tokens", "padding_ratio"},
      {"data_wait_seconds", "data_wait_ratio"}};
  Names names = {"tokens_per_second", "eta_seconds"};
  json line = json::parse(wire::Encode(wire::FromWorker(FullReport())));
  line.erase("type");
  for (const std::string& name : NamesOf(line)) {
    const auto other = kOthers.find(name);
    names.insert(other == kOthers.end() ? name : other->second);
  }
  return names;
}

jobs::Progress InTheDaemon() {
  jobs::Progress progress{FullReport()};
  jobs::StepRate().Apply(progress);
  return progress;
}

TEST(ProgressFieldsTest, TheEventInTheDatabaseHasThemAll) {
  const std::string text = jobs::EncodeColumn(InTheDaemon());
  EXPECT_EQ(NamesOf(json::parse(text)), Expected());
  auto read = jobs::DecodeColumn<jobs::Progress>(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(jobs::EncodeColumn(*read), text);
}

// By reflection: a field that is not filled fails.
void AddSet(const google::protobuf::Message& message, Names& names) {
  const auto& type = *message.GetDescriptor();
  const auto& get = *message.GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const auto& field = *type.field(i);
    const bool set = field.is_repeated() ? get.FieldSize(message, &field) > 0
                                         : get.HasField(message, &field);
    EXPECT_TRUE(set) << field.full_name();
    if (std::string(field.name()) == "memory") {
      AddSet(get.GetMessage(message, &field), names);
    } else {
      names.insert(std::string(field.name()));
    }
  }
}

TEST(ProgressFieldsTest, TheApiHasThemAll) {
  // As a watcher gets it who comes late: out of the database.
  auto stored =
      jobs::DecodeColumn<jobs::Progress>(jobs::EncodeColumn(InTheDaemon()));
  ASSERT_TRUE(stored.ok()) << stored.status();
  v1::Progress progress;
  rpc::ToProto(*stored, progress);
  Names names;
  AddSet(progress, names);
  EXPECT_EQ(names, Expected());
  EXPECT_EQ(progress.padding_ratio(), 0.25);
  EXPECT_EQ(progress.data_wait_ratio(), 1.0 / 7);
  EXPECT_EQ(progress.device_utilization_ratio(), 0.75);
  EXPECT_EQ(progress.device(), "mps");
  EXPECT_EQ(progress.memory().peak_allocated_bytes(), 5);
  EXPECT_EQ(progress.cpu_fallback_ops().at("aten::a"), 2);
}

// Absent is absent, never 0: a device that reports nothing must not look like
// one that rests.
TEST(ProgressFieldsTest, WhatTheDeviceDoesNotReportIsInNoFrame) {
  report::Progress silent = FullReport();
  silent.device_utilization_ratio.reset();
  EXPECT_EQ(wire::Encode(wire::FromWorker(silent)).find("utilization"),
            std::string::npos);
  const std::string text = jobs::EncodeColumn(jobs::Progress{silent});
  EXPECT_EQ(text.find("utilization"), std::string::npos);
  auto stored = jobs::DecodeColumn<jobs::Progress>(text);
  ASSERT_TRUE(stored.ok()) << stored.status();
  v1::Progress progress;
  rpc::ToProto(*stored, progress);
  EXPECT_FALSE(progress.has_device_utilization_ratio());
}

}  // namespace
}  // namespace mpsd
