// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_DOCTOR_H_
#define MPSD_CLIENT_DOCTOR_H_

#include <ostream>

#include "client/console.h"
#include "client/study.h"
#include "mpsd/v1/doctor.pb.h"

namespace mpsd::client {

// Asks the daemon how its machine is, waits for the self-test where `deep` has
// started it, and adds the client's own gates before the daemon's: whether the
// daemon can be reached, both versions, the round trip, the clocks, the
// certificate. Prints errors and, on a terminal, what it waits for. Where the
// daemon gave no answer, returns the error's code and fills in the client's
// gates all the same; leaves *diagnosis empty where the thresholds are wrong.
ExitCode Diagnose(const Console& console, bool deep,
                  const ThresholdArguments& thresholds,
                  v1::Diagnosis* diagnosis);

// The gates as a table, what to do about them, and the environment where it
// drifted.
void PrintDiagnosis(const v1::Diagnosis& diagnosis, std::ostream& out);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_DOCTOR_H_
