// SPDX-License-Identifier: Apache-2.0
#include "server/planner/worker_gates.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "core/base/file.h"
#include "server/planner/texts.h"

namespace mpsd::doctor {

namespace {

using nlohmann::json;

constexpr size_t kMostBackends = 8;
constexpr size_t kMostVariables = 100;

// Null if `object` has no such member.
const json* Member(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

std::string TextOf(const json& object, const char* name) {
  const json* member = Member(object, name);
  if (member == nullptr || !member->is_string()) return "";
  return Foreign(member->get_ref<const std::string&>());
}

bool FlagOf(const json& object, const char* name) {
  const json* member = Member(object, name);
  return member != nullptr && member->is_boolean() && member->get<bool>();
}

void ReadBackends(const json& line, WorkerGates& gates) {
  const json* list = Member(line, "backends");
  if (list == nullptr || !list->is_array()) return;
  for (const json& entry : *list) {
    if (gates.backends.size() == kMostBackends) return;
    Backend backend;
    backend.name = TextOf(entry, "name");
    backend.built = FlagOf(entry, "built");
    backend.available = FlagOf(entry, "available");
    backend.device = TextOf(entry, "device");
    backend.problem = TextOf(entry, "problem");
    if (!backend.name.empty()) gates.backends.push_back(std::move(backend));
  }
}

void ReadEnvironment(const json& line, WorkerGates& gates) {
  const json* variables = Member(line, "environment");
  if (variables == nullptr || !variables->is_object()) return;
  for (const auto& [name, value] : variables->items()) {
    if (gates.environment.size() == kMostVariables) return;
    // The whole value: it is compared.
    if (value.is_string()) {
      gates.environment.emplace(name, value.get<std::string>());
    }
  }
}

void ReadMatmul(const json& line, WorkerGates& gates) {
  const json* member = Member(line, "matmul");
  if (member == nullptr || !member->is_object()) return;
  Matmul matmul;
  matmul.asked_device = TextOf(*member, "asked_device");
  matmul.result_device = TextOf(*member, "result_device");
  matmul.right = FlagOf(*member, "right");
  const json* seconds = Member(*member, "seconds");
  if (seconds != nullptr && seconds->is_number()) {
    matmul.seconds = seconds->get<double>();
  }
  if (!matmul.asked_device.empty()) gates.matmul = std::move(matmul);
}

void ReadLine(const json& line, WorkerGates& gates) {
  ReadMatmul(line, gates);
  if (Member(line, "torch_version") == nullptr) return;
  gates.worker_version = TextOf(line, "worker_version");
  gates.torch_version = TextOf(line, "torch_version");
  gates.built_against = TextOf(line, "built_against");
  const json* protocol = Member(line, "protocol_version");
  if (protocol != nullptr && protocol->is_number_integer()) {
    gates.protocol_version = protocol->get<int>();
  }
  ReadBackends(line, gates);
  ReadEnvironment(line, gates);
}

// The last stage of a worker that did not reach its end.
const char* Place(const WorkerGates& gates) {
  if (gates.built_against.empty()) return " while it looked for devices";
  return gates.matmul ? " at its end" : " in a product of matrices";
}

}  // namespace

WorkerGates ParseGates(std::string_view output) {
  WorkerGates gates;
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(output.size(), line.size() + 1));
    ReadLine(base::ParseTree<json>(line), gates);
  }
  const bool whole = gates.matmul && !gates.built_against.empty();
  gates.end = whole ? WorkerGates::End::kDone : WorkerGates::End::kNoSense;
  if (!whole) gates.problem = "mpsd-worker --gates printed something else";
  return gates;
}

WorkerGates ReadGates(std::string_view output, std::optional<int> status,
                      absl::Duration limit) {
  constexpr char kWho[] = "mpsd-worker --gates";
  WorkerGates gates = ParseGates(output);
  if (!status) {
    gates.end = WorkerGates::End::kTooSlow;
    gates.problem = absl::StrCat(kWho, " was killed after ",
                                 absl::FormatDuration(limit), Place(gates));
  } else if (WIFSIGNALED(*status)) {
    gates.end = WorkerGates::End::kCrashed;
    gates.problem = absl::StrCat(kWho, " crashed with signal ",
                                 WTERMSIG(*status), Place(gates));
  } else if (WEXITSTATUS(*status) != 0) {
    gates.end = WorkerGates::End::kCrashed;
    gates.problem = absl::StrCat(kWho, " ended with exit status ",
                                 WEXITSTATUS(*status), Place(gates));
  }
  return gates;
}

namespace {

constexpr size_t kLargestVerdict = 8 << 20;

}  // namespace

Selftest ReadSelftest(const std::filesystem::path& path) {
  Selftest selftest;
  const auto text = base::ReadSmallFile(path, kLargestVerdict);
  if (!text.ok()) return selftest;
  const auto verdict = base::ParseTree<nlohmann::json>(*text);
  if (!verdict.is_object()) return selftest;
  const auto passed = verdict.find("passed");
  if (passed == verdict.end() || !passed->is_boolean()) return selftest;
  selftest.state =
      passed->get<bool>() ? Selftest::State::kPassed : Selftest::State::kFailed;
  selftest.summary = TextOf(verdict, "summary");
  const auto identity = verdict.find("identity");
  if (identity != verdict.end() && identity->is_object()) {
    selftest.device = TextOf(*identity, "device");
  }
  struct stat file;
  if (stat(path.c_str(), &file) == 0) {
    selftest.time = absl::FromTimeT(file.st_mtime);
  }
  return selftest;
}

}  // namespace mpsd::doctor
