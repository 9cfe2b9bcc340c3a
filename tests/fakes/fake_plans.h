// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_FAKES_FAKE_PLANS_H_
#define MPSD_TESTS_FAKES_FAKE_PLANS_H_

namespace mpsd::fakes {

// Stands in for `mpsd-worker --plan JOB --facts FACTS`: tells a plan whose
// findings say what it was given, or misbehaves as the spec's name behind
// "fake:" says (fake_plans.cc lists the ways). Returns the exit status.
int FakePlan(int argc, char** argv);

}  // namespace mpsd::fakes

#endif  // MPSD_TESTS_FAKES_FAKE_PLANS_H_
