// SPDX-License-Identifier: Apache-2.0
#include "tests/client/fake_sweeps.h"

#include <algorithm>

#include "tests/client/fake_failures.h"

namespace mpsd::client {

FakeSweeps::Status FakeSweeps::CreateSweep(
    Context*, const v1::CreateSweepRequest* request, v1::Sweep* response) {
  absl::MutexLock lock(&mutex_);
  created.push_back(*request);
  if (!sweeps.empty()) *response = sweeps.front();
  return Failure("CreateSweep");
}

FakeSweeps::Status FakeSweeps::GetSweep(Context*,
                                        const v1::GetSweepRequest* request,
                                        v1::Sweep* response) {
  absl::MutexLock lock(&mutex_);
  if (!course.empty()) {
    *response = course.front();
    course.pop_front();
    return Failure("GetSweep");
  }
  return Find(request->id(), response) ? Failure("GetSweep") : NoSuch();
}

FakeSweeps::Status FakeSweeps::ListSweeps(Context*,
                                          const v1::ListSweepsRequest* request,
                                          v1::ListSweepsResponse* response) {
  absl::MutexLock lock(&mutex_);
  // Pages of two.
  size_t i =
      request->page_token().empty() ? 0 : std::stoul(request->page_token());
  for (; i < sweeps.size(); ++i) {
    const auto& ids = request->ids();
    if (!ids.empty() &&
        std::count(ids.begin(), ids.end(), sweeps[i].id()) == 0) {
      continue;
    }
    if (response->sweeps_size() == 2) {
      response->set_next_page_token(std::to_string(i));
      break;
    }
    *response->add_sweeps() = sweeps[i];
    response->mutable_sweeps()->rbegin()->clear_children();
  }
  return Failure("ListSweeps");
}

FakeSweeps::Status FakeSweeps::CancelSweep(
    Context*, const v1::CancelSweepRequest* request, v1::Sweep* response) {
  absl::MutexLock lock(&mutex_);
  cancelled.push_back(request->id());
  return Find(request->id(), response) ? Failure("CancelSweep") : NoSuch();
}

bool FakeSweeps::Find(const std::string& id, v1::Sweep* found) const {
  for (const v1::Sweep& sweep : sweeps) {
    if (sweep.id() != id) continue;
    *found = sweep;
    return true;
  }
  return false;
}

FakeSweeps::Status FakeSweeps::NoSuch() {
  return Status(grpc::StatusCode::NOT_FOUND, "no such sweep");
}

FakeSweeps::Status FakeSweeps::Failure(const std::string& method) {
  return FailureOf(fail_, method);
}

}  // namespace mpsd::client
