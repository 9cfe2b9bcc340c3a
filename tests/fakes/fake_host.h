// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/host/host.h"

namespace mpsd::fakes {

// A machine that is as the test says. One thread at a time.
class FakeHost final : public host::Host {
 public:
  host::Reading Read() override { return reading; }
  std::unique_ptr<host::Awake> KeepAwake(const std::string& why) override {
    reasons.push_back(why);
    return std::make_unique<Assertion>(awake);
  }

  host::Reading reading;
  int awake = 0;                     // assertions held now
  std::vector<std::string> reasons;  // of every assertion

 private:
  class Assertion final : public host::Awake {
   public:
    explicit Assertion(int& count) : count_(count) { ++count_; }
    ~Assertion() override { --count_; }

   private:
    int& count_;
  };
};

}  // namespace mpsd::fakes
