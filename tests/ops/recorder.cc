// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/recorder.h"

#include <ATen/ATen.h>
#include <c10/util/Backtrace.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "tests/ops/fake_memory.h"
#include "tests/ops/legality.h"
#include "tests/ops/operators.h"

namespace mpsd::ops {
namespace {

// With MPSD_OPS_BACKTRACE set, where a call came from that is at fault.
void PrintBacktrace(const std::string& what) {
  if (std::getenv("MPSD_OPS_BACKTRACE") == nullptr) return;
  std::cerr << what << "\n" << c10::get_backtrace() << "\n";
}

}  // namespace

Recorder::Recorder()
    : live_at_begin_(LiveBytes()),
      commits_at_begin_(Commits()),
      waits_at_begin_(Waits()) {
  InstallFakeMps();
  SetKernelObserver(this);
}

Recorder::~Recorder() { SetKernelObserver(nullptr); }

void Recorder::Close(const std::string& name) {
  live_at_begin_ = LiveBytes();
  current_.name = name;
  current_.live = live_at_begin_;
  current_.commits = Commits() - std::exchange(commits_at_begin_, Commits());
  current_.syncs += Waits() - std::exchange(waits_at_begin_, Waits());
  parts_.push_back(std::move(current_));
  current_ = {};
}

void Recorder::OnKernel(const Kernel& kernel) {
  const std::string name = toString(kernel.op.operator_name());
  ++current_.kernels;
  operators_.insert(name);
  if (MakesNumbers(kernel.op, kernel.inputs)) {
    current_.operators.insert(TypedName(kernel.op, kernel.inputs));
  }
  if (!kernel.has_mps_kernel && ++missing_[name] == 1) PrintBacktrace(name);
  for (const std::string& fault : Faults(kernel)) {
    if (faults_.insert(fault).second) PrintBacktrace(fault);
  }
  if (Synchronises(kernel)) ++current_.syncs;
  current_.signatures.insert(Signature(kernel));
  if (Uploads(kernel)) ++current_.uploads;
  if (kernel.op.schema().name() != "aten::index_select") return;
  if (kernel.inputs[0].toTensor().dim() < 2) return;  // no rows: a table
  // Nor one that the codes of a quantised weight are looked up in.
  const at::Tensor index = kernel.inputs[2].toTensor();
  if (index.scalar_type() == at::kLong) current_.picked.insert(index.numel());
}

void Recorder::OnMemory(int64_t bytes, int64_t live) {
  if (bytes > 0) current_.bytes += bytes;
  current_.peak = std::max(current_.peak, live - live_at_begin_);
}

}  // namespace mpsd::ops
