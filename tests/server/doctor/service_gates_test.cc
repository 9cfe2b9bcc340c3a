// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/doctor/fake_machine.h"

namespace mpsd::doctor {
namespace {

using runbook::Verdict;
using testing::HasSubstr;

TEST(ServiceGates, FindEachFault) {
  ExpectEachFound(
      HealthyMac(),
      {{"few descriptors", [](Facts& f) { f.limits.descriptors = 256; },
        "limits.descriptors", kWarn, "256 allowed, 40 open"},
       {"few processes", [](Facts& f) { f.limits.processes = 266; },
        "limits.processes", kWarn, "266"},
       {"started by hand beside its service",
        [](Facts& f) { f.service.runs_mpsd = false; }, "service.file", kWarn,
        "started otherwise"},
       {"no ProcessType", [](Facts& f) { f.service.process_type.clear(); },
        "service.process_type", kWarn, "none"},
       {"a throttled ProcessType",
        [](Facts& f) { f.service.process_type = "Background"; },
        "service.process_type", kWarn, "Background"},
       {"no descriptors in the file",
        [](Facts& f) { f.service.descriptors.reset(); }, "service.descriptors",
        kWarn, "sets none"},
       {"few descriptors in the file",
        [](Facts& f) { f.service.descriptors = 256; }, "service.descriptors",
        kWarn, "256 in the file"},
       {"killed before its checkpoint",
        [](Facts& f) { f.service.stop_seconds = 20; }, "service.stop_time",
        kWarn, "20 s from SIGTERM"},
       {"a variable that the file does not name",
        [](Facts& f) {
          f.daemon_environment["OMP_NUM_THREADS"] = "1";
          f.expected_environment["OMP_NUM_THREADS"] = "1";
          f.worker.environment["OMP_NUM_THREADS"] = "1";
        },
        "environment.drift", kWarn, "OMP_NUM_THREADS: its service's file"},
       {"a value that is not the file's",
        [](Facts& f) {
          f.service.environment["OMP_NUM_THREADS"] = "8";
          f.daemon_environment["OMP_NUM_THREADS"] = "1";
        },
        "environment.drift", kWarn, "another value than its service's file"},
       {"a worker with another value",
        [](Facts& f) { f.worker.environment["OMP_WAIT_POLICY"] = "ACTIVE"; },
        "environment.drift", kWarn, "OMP_WAIT_POLICY: the worker"},
       {"a worker without a value",
        [](Facts& f) { f.worker.environment.clear(); }, "environment.drift",
        kWarn, "the worker has another value"},
       {"Python's path",
        [](Facts& f) {
          f.service.environment["PYTHONPATH"] = "/x";
          f.daemon_environment["PYTHONPATH"] = "/x";
        },
        "environment.harmful", kWarn, "PYTHONPATH=/x"},
       {"operators that fall back to the processor",
        [](Facts& f) {
          f.worker.environment["PYTORCH_ENABLE_MPS_FALLBACK"] = "1";
          f.expected_environment["PYTORCH_ENABLE_MPS_FALLBACK"] = "1";
        },
        "environment.harmful", kWarn, "PYTORCH_ENABLE_MPS_FALLBACK=1"}});
}

TEST(ServiceGates, LaunchdMayWaitForEver) {
  Facts facts = HealthyMac();
  facts.service.stop_seconds = 0;
  EXPECT_THAT(Wrong(facts), testing::IsEmpty());
}

TEST(ServiceGates, StartedByHandWithoutAServiceIsNoFault) {
  Facts facts = HealthyLinux();
  facts.service = {};
  facts.daemon_environment["OMP_NUM_THREADS"] = "1";
  EXPECT_THAT(Wrong(facts), testing::IsEmpty());
  EXPECT_EQ(FindingOf(facts, "service.file").verdict, Verdict::kNotTold);
}

// systemd and launchd set the locale themselves.
TEST(ServiceGates, TheLocaleIsNoDrift) {
  Facts facts = HealthyLinux();
  facts.daemon_environment["LANG"] = "en_GB.UTF-8";
  facts.daemon_environment["LC_ALL"] = "C.UTF-8";
  EXPECT_THAT(Wrong(facts), testing::IsEmpty());
}

TEST(ServiceGates, ADriftShowsNoSecret) {
  Facts facts = HealthyMac();
  facts.daemon_environment["HF_TOKEN"] = "hf_abc";
  EXPECT_THAT(
      FindingOf(facts, "environment.drift").found,
      testing::AllOf(HasSubstr("HF_TOKEN"), testing::Not(HasSubstr("hf_abc"))));
}

}  // namespace
}  // namespace mpsd::doctor
