// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/fake_plans.h"

#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace mpsd::fakes {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

[[noreturn]] void Stay() {
  sleep(60);
  _exit(0);
}

// The protocol of server/planner/plan_maker.h.
void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}
void SayStage(const std::string& stage) { Say(Json{{"stage", stage}}.dump()); }
void SayError(const std::string& code, const std::string& message) {
  Json error;
  error["error"]["code"] = code;
  error["error"]["message"] = message;
  Say(error.dump());
  _exit(1);
}

// A plan that fits, with the facts and the number of inputs that lie beside
// job.json as findings.
std::string PlanOf(const fs::path& job, const std::string& facts) {
  std::error_code none;
  int64_t inputs = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(job.parent_path() / "inputs", none)) {
    if (!entry.is_directory()) ++inputs;
  }
  Json findings = Json::array();
  const auto add = [&](const char* name, const std::string& found) {
    Json finding;
    finding["name"] = name;
    finding["found"] = found;
    findings.push_back(std::move(finding));
  };
  const char* tmpdir = std::getenv("TMPDIR");
  add("fake.facts", facts);
  add("fake.job", job.string());
  add("fake.inputs", std::to_string(inputs));
  add("fake.tmpdir", tmpdir == nullptr ? "" : tmpdir);
  Json line;
  line["plan"]["verdict"] = "VERDICT_PASS";
  line["plan"]["findings"] = std::move(findings);
  line["plan"]["steps"]["total_steps"] = "12";
  line["plan"]["time"]["total_seconds"] = 60.0;
  return line.dump();
}
void SayPlan(const fs::path& job, const std::string& facts) {
  Say(PlanOf(job, facts));
}

using Mode = std::function<void(const fs::path& job)>;

const std::map<std::string, Mode>& Modes() {
  static const auto* modes = new std::map<std::string, Mode>{
      {"garbage",
       [](const fs::path&) {
         Say("\xff\xfe this is no JSON");
         Stay();
       }},
      {"hang", [](const fs::path&) { Stay(); }},
      {"deaf",
       [](const fs::path&) {
         std::signal(SIGTERM, SIG_IGN);
         Stay();
       }},
      {"crash-abort",
       [](const fs::path&) {
         std::fputs("MPSGraph assertion failed\n", stderr);
         std::raise(SIGABRT);
       }},
      {"exit-1", [](const fs::path&) { _exit(1); }},
      {"endless",
       [](const fs::path&) {
         const std::string bytes(1 << 16, 'x');
         while (std::fwrite(bytes.data(), 1, bytes.size(), stdout) > 0) {
         }
       }},
      {"stderr-flood",
       [](const fs::path&) {
         const std::string line(200, 'x');
         for (int i = 0; i < 20000; ++i) {
           std::fprintf(stderr, "%s\n", line.c_str());
         }
         std::fputs("last words\n", stderr);
         _exit(1);
       }},
      {"talk-after-done",
       [](const fs::path& job) {
         // In one write: nobody listens for long after a plan.
         Say(PlanOf(job, "{}") + "\n" + PlanOf(job, "{}"));
         Stay();
       }},
      {"linger",
       [](const fs::path& job) {
         SayPlan(job, "{}");
         Stay();
       }},
      {"no-plan", [](const fs::path&) { Say(R"({"plan": {"steps": 7}})"); }},
      {"rejected",
       [](const fs::path& job) {
         SayError("INVALID_ARGUMENT", (job.parent_path() / "inputs").string() +
                                          "/up/e2.csv:2: no label");
       }},
      {"hostile",
       [](const fs::path&) {
         SayStage("\x1b]0;PWNED\a\x1b[2J\nforged");
         SayError("UNAUTHENTICATED", "\x1b[2J" + std::string(1 << 20, 'x'));
       }},
      // Each stage a moment after the one before it.
      {"slow",
       [](const fs::path& job) {
         for (int i = 0; i < 20; ++i) {
           SayStage("row " + std::to_string(i));
           usleep(100'000);
         }
         SayPlan(job, "{}");
       }},
  };
  return *modes;
}

std::string Read(const char* path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

int FakePlan(int argc, char** argv) {
  if (argc != 5 || std::string(argv[3]) != "--facts") return 2;
  const Json spec = Json::parse(Read(argv[2]), nullptr, false);
  const std::string name = spec.is_object() ? spec.value("name", "") : "";
  SayStage("tokenizing");
  const auto mode =
      Modes().find(name.starts_with("fake:") ? name.substr(5) : "");
  if (mode != Modes().end()) {
    mode->second(argv[2]);
  } else {
    SayPlan(argv[2], Read(argv[4]));
  }
  return 0;
}

}  // namespace mpsd::fakes
