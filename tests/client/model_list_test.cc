// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ModelListTest : public ClientTest {
 protected:
  v1::Model& Add(const std::string& name) {
    v1::Model model;
    model.set_name(name);
    model.set_size_bytes(270'000'000);
    model.set_family("llama");
    model.set_parameters(134'515'008);
    model.add_tasks("CAUSAL_LM");
    model.set_least_memory_bytes(1'200'000'000);
    model.set_fits(true);
    model.set_owner("ann");
    SetTime(model.mutable_last_use_time(), absl::Minutes(3));
    return daemon_->models().listed.emplace_back(model);
  }
};

TEST_F(ModelListTest, ATable) {
  Add("tiny");
  v1::Model& pulled = Add("org/big");
  pulled.set_pulled(true);
  pulled.clear_owner();
  pulled.set_fits(false);
  pulled.clear_last_use_time();
  pulled.set_unfinished_jobs(2);
  const Result result = RunVerb({"model", "list"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "NAME     SIZE      FAMILY  PARAMETERS   TASKS      MEMORY  FITS  "
            "USED       FROM\n"
            "tiny     270.0 MB  llama   134,515,008  CAUSAL_LM  1.2 GB  yes   "
            "3m00s ago  ann\n"
            "org/big  270.0 MB  llama   134,515,008  CAUSAL_LM  1.2 GB  no    "
            "2 jobs     the hub\n");
}

TEST_F(ModelListTest, WhatIsNotKnownAndWhatIsWrong) {
  v1::Model model;
  model.set_name("odd");
  model.set_problem("an architecture\x1b[2J that mpsd does not have");
  daemon_->models().listed.push_back(model);
  const Result result = RunVerb({"model", "list"});
  EXPECT_THAT(result.out,
              HasSubstr("odd   0 B   -       -           -      -"));
  EXPECT_THAT(result.out, HasSubstr("odd: an architecture"));
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
}

TEST_F(ModelListTest, OneOrNone) {
  EXPECT_THAT(RunVerb({"model", "list"}).out, HasSubstr("mpsctl model push"));
  Add("tiny");
  Add("other");
  EXPECT_THAT(RunVerb({"model", "list", "tiny"}).out, Not(HasSubstr("other")));
  const Result none = RunVerb({"model", "list", "none"});
  EXPECT_EQ(none.code, 4);
  EXPECT_THAT(none.err, HasSubstr("mpsd has no model none"));
}

TEST_F(ModelListTest, Json) {
  Add("tiny");
  const Result result = RunVerb({"model", "list", "--json"});
  EXPECT_EQ(nlohmann::json::parse(result.out)["size_bytes"], 270000000);
}

TEST_F(ModelListTest, AnOlderDaemonHasNoModels) {
  data().fail["ListModels"] = grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "");
  EXPECT_EQ(RunVerb({"model", "list"}).code, 6);
}

}  // namespace
}  // namespace mpsd::client
