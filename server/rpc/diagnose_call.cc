// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/diagnose_call.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/report/thresholds.h"
#include "server/planner/judge.h"
#include "server/planner/texts.h"
#include "server/rpc/convert.h"
#include "server/rpc/host_state.h"
#include "server/rpc/status.h"

namespace mpsd::rpc {
namespace {

using doctor::Foreign;

void Fill(const runbook::Finding& finding, v1::Finding& out) {
  out.set_name(ValidUtf8(finding.name));
  // The numbers are the same in both.
  out.set_verdict(static_cast<v1::Verdict>(finding.verdict));
  out.set_found(ValidUtf8(finding.found));
  out.set_advice(ValidUtf8(finding.advice));
  if (finding.value) out.set_value(*finding.value);
  if (finding.threshold) out.set_threshold(*finding.threshold);
  out.set_unit(finding.unit);
}

void Fill(const doctor::Machine& machine, v1::MachineFacts& out) {
  out.set_architecture(Foreign(machine.architecture));
  if (machine.translated) out.set_translated(*machine.translated);
  out.set_system(Foreign(machine.system));
  out.set_macos_version(Foreign(machine.macos_version));
  out.set_chip(Foreign(machine.chip));
  out.set_cores(machine.cores.all);
  if (machine.cores.fast) out.set_fast_cores(*machine.cores.fast);
  if (machine.cores.efficient) {
    out.set_efficient_cores(*machine.cores.efficient);
  }
  if (machine.gpu_cores) out.set_gpu_cores(*machine.gpu_cores);
  out.set_memory_bytes(machine.memory_bytes);
  out.set_nvidia(machine.nvidia);
}

void Fill(const doctor::WorkerGates& gates, v1::WorkerGates& out) {
  // The numbers are the same in both.
  out.set_end(static_cast<v1::WorkerGates::End>(gates.end));
  out.set_problem(Foreign(gates.problem));
  if (gates.time != absl::InfinitePast()) {
    ToProto(gates.time, *out.mutable_time());
  }
  out.set_worker_version(Foreign(gates.worker_version));
  out.set_protocol_version(gates.protocol_version);
  out.set_torch_version(Foreign(gates.torch_version));
  out.set_built_against(Foreign(gates.built_against));
  for (const doctor::Backend& backend : gates.backends) {
    v1::BackendFacts& facts = *out.add_backends();
    facts.set_name(Foreign(backend.name));
    facts.set_built(backend.built);
    facts.set_available(backend.available);
    facts.set_device(Foreign(backend.device));
    facts.set_problem(Foreign(backend.problem));
  }
  if (!gates.matmul) return;
  v1::MatmulFacts& matmul = *out.mutable_matmul();
  matmul.set_asked_device(Foreign(gates.matmul->asked_device));
  matmul.set_result_device(Foreign(gates.matmul->result_device));
  matmul.set_right(gates.matmul->right);
  matmul.set_seconds(gates.matmul->seconds);
}

void Fill(const doctor::Selftest& test, v1::SelftestFacts& out) {
  // The numbers are the same in both.
  out.set_state(static_cast<v1::SelftestFacts::State>(test.state));
  out.set_running(test.running);
  out.set_device(Foreign(test.device));
  out.set_summary(Foreign(test.summary));
  if (test.time) ToProto(*test.time, *out.mutable_time());
}

void Fill(const doctor::Disk& disk, v1::DiskFacts& out) {
  out.set_folder(Foreign(disk.folder));
  if (disk.free_bytes) out.set_free_bytes(*disk.free_bytes);
  if (disk.size_bytes) out.set_size_bytes(*disk.size_bytes);
  if (!disk.speed) return;
  out.set_write_bytes_per_second(disk.speed->write_bytes_per_second);
  out.set_read_bytes_per_second(disk.speed->read_bytes_per_second);
  ToProto(disk.speed->time, *out.mutable_time());
}

void Fill(const doctor::FolderMount& folder, v1::MountFacts& out) {
  out.set_what(folder.what);
  out.set_folder(Foreign(folder.folder));
  if (!folder.mount) return;
  out.set_type(Foreign(folder.mount->type));
  out.set_source(Foreign(folder.mount->source));
  out.set_network(folder.mount->network);
  out.set_read_only(folder.mount->read_only);
}

void Fill(const doctor::OtherProcess& process, v1::ProcessFacts& out) {
  out.set_pid(process.pid);
  out.set_name(Foreign(process.name));
  if (process.memory_bytes) out.set_memory_bytes(*process.memory_bytes);
  out.set_uses_gpu(process.uses_gpu);
}

void Fill(const doctor::Service& service, v1::ServiceFacts& out) {
  if (service.file.empty()) return;
  out.set_manager(service.manager);
  out.set_file(Foreign(service.file));
  if (service.runs_mpsd) out.set_runs_mpsd(*service.runs_mpsd);
  out.set_process_type(Foreign(service.process_type));
  if (service.descriptors) out.set_descriptors(*service.descriptors);
  if (service.stop_seconds) out.set_stop_seconds(*service.stop_seconds);
}

void Fill(const doctor::Variable& variable, v1::EnvironmentVariable& out) {
  out.set_name(variable.name);
  if (variable.service) out.set_service(*variable.service);
  if (variable.daemon) out.set_daemon(*variable.daemon);
  if (variable.expected) out.set_expected(*variable.expected);
  if (variable.worker) out.set_worker(*variable.worker);
  out.set_differs(!variable.drift.empty());
}

}  // namespace

void ToProto(const doctor::Facts& facts, v1::Diagnosis& out) {
  Fill(facts.machine, *out.mutable_machine());
  ToProto(facts.host, *out.mutable_host());
  Fill(facts.worker, *out.mutable_worker());
  Fill(facts.selftest, *out.mutable_selftest());
  Fill(facts.disk, *out.mutable_disk());
  for (const doctor::FolderMount& folder : facts.mounts) {
    Fill(folder, *out.add_mounts());
  }
  if (facts.processes) {
    for (const doctor::OtherProcess& process : *facts.processes) {
      Fill(process, *out.add_processes());
    }
  }
  v1::LimitFacts& limits = *out.mutable_limits();
  if (facts.open_descriptors) {
    limits.set_open_descriptors(*facts.open_descriptors);
  }
  if (facts.limits.descriptors) {
    limits.set_descriptors(*facts.limits.descriptors);
  }
  if (facts.limits.processes) limits.set_processes(*facts.limits.processes);
  Fill(facts.service, *out.mutable_service());
  for (const doctor::Variable& variable : doctor::CompareEnvironments(facts)) {
    Fill(variable, *out.add_environment());
  }
}

absl::Status Diagnose(doctor::Examiner* examiner, Call& call,
                      const v1::DiagnoseRequest& request,
                      v1::Diagnosis& response) {
  if (examiner == nullptr) {
    return absl::UnimplementedError("this mpsd looks at no machine");
  }
  ASSIGN_OR_RETURN(const runbook::Thresholds thresholds,
                   runbook::Thresholds::FromMap({request.thresholds().begin(),
                                                 request.thresholds().end()}));
  ASSIGN_OR_RETURN(const doctor::Facts facts,
                   examiner->Examine(request.deep(), call.wanted));
  const doctor::Findings findings = doctor::Judge(facts, thresholds);
  response.set_verdict(static_cast<v1::Verdict>(runbook::Worst(findings)));
  for (const runbook::Finding& finding : findings) {
    if (response.findings_size() == limits::kFindings) break;
    Fill(finding, *response.add_findings());
  }
  ToProto(facts, response);
  // The client compares it with its own clock.
  ToProto(absl::Now(), *response.mutable_time());
  return absl::OkStatus();
}

}  // namespace mpsd::rpc
