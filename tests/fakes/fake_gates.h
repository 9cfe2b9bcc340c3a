// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_FAKES_FAKE_GATES_H_
#define MPSD_TESTS_FAKES_FAKE_GATES_H_

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "core/host/environment.h"
#include "core/wire/messages.h"

// What fake_worker answers to --gates: as a machine with a processor alone, or
// as FAKE_WORKER_GATES says, "hang", "crash" (in the product), "garbage",
// "wrong" (product) or "flood". The file that FAKE_WORKER_GATES_LOG names gets
// a byte a call.
inline int FakeGates() {
  const char* variable = std::getenv("FAKE_WORKER_GATES");
  const std::string mode = variable == nullptr ? "ok" : variable;
  if (const char* log = std::getenv("FAKE_WORKER_GATES_LOG")) {
    if (std::FILE* file = std::fopen(log, "a")) {
      std::fputc('.', file);
      std::fclose(file);
    }
  }
  if (mode == "garbage") {
    std::puts("\xff\xfe this is no JSON");
    return 0;
  }
  while (mode == "flood") std::puts(std::string(4000, 'x').c_str());
  nlohmann::json environment = nlohmann::json::object();
  for (const auto& [name, value] :
       mpsd::host::ThoseThatMatter(mpsd::host::CurrentEnvironment())) {
    environment[name] = value;
  }
  const nlohmann::json facts = {
      {"worker_version", MPSD_VERSION},
      {"protocol_version", mpsd::wire::kProtocolVersion},
      {"torch_version", "2.15.0"},
      {"built_against", "2.15.0"},
      {"backends", nlohmann::json::array()},
      {"environment", environment}};
  std::puts(facts.dump().c_str());
  std::fflush(stdout);
  if (mode == "hang") std::this_thread::sleep_for(std::chrono::minutes(1));
  if (mode == "crash") std::raise(SIGABRT);
  const nlohmann::json matmul = {{"asked_device", "cpu"},
                                 {"result_device", "cpu"},
                                 {"right", mode != "wrong"},
                                 {"seconds", 0.01}};
  std::puts(nlohmann::json({{"matmul", matmul}}).dump().c_str());
  return 0;
}

#endif  // MPSD_TESTS_FAKES_FAKE_GATES_H_
