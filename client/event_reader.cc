// SPDX-License-Identifier: Apache-2.0
#include "client/event_reader.h"

#include <google/protobuf/util/field_comparator.h>
#include <google/protobuf/util/message_differencer.h>

#include <chrono>
#include <cmath>

#include "client/connection.h"
#include "client/text/format.h"

namespace mpsd::client {
namespace {

// How long the stored events of a job without progress may take to come.
constexpr std::chrono::milliseconds kStoredEvents{1000};

bool SameProgress(const v1::Progress& a, const v1::Progress& b) {
  google::protobuf::util::DefaultFieldComparator comparator;
  comparator.set_treat_nan_as_equal(true);  // a loss may be NaN
  google::protobuf::util::MessageDifferencer differencer;
  differencer.set_field_comparator(&comparator);
  return differencer.Compare(a, b);
}

}  // namespace

bool RowReached::Add(const v1::JobEvent& event) {
  if (event.has_progress()) {
    progress_ = progress_ || SameProgress(event.progress(), job_.progress());
  } else if (event.has_evaluated()) {
    const double latest = job_.has_eval_loss_after() ? job_.eval_loss_after()
                                                     : job_.eval_loss_before();
    const double loss = event.evaluated().eval_loss();
    evaluated_ = evaluated_ || loss == latest ||
                 (std::isnan(loss) && std::isnan(latest));
  }
  const bool has_evaluation =
      job_.has_eval_loss_after() || job_.has_eval_loss_before();
  return (progress_ || !job_.has_progress()) && (evaluated_ || !has_evaluation);
}

grpc::Status ReadEvents(const Console& console, const v1::Job& job,
                        const std::function<void(v1::JobEvent&)>& take,
                        bool* interrupted) {
  const bool goes_on = !IsFinal(job.state());
  RowReached reached(job);
  grpc::ClientContext context;
  const bool waits = !reached.Add({});
  if (goes_on && !waits) {
    // The row has nothing to wait for, and the stream does not tell where the
    // stored events end.
    context.set_deadline(std::chrono::system_clock::now() + kStoredEvents);
  } else if (goes_on) {
    // In case that the row's progress never comes: another event took its place
    // in the daemon's store.
    SetDeadline(context);
  }
  Interrupt::Listener listener(console.terminal.interrupt,
                               [&context] { context.TryCancel(); });
  v1::WatchRequest request;
  request.set_id(job.id());
  auto reader = console.daemon.jobs().Watch(&context, request);
  v1::JobEvent event;
  bool enough = false;
  while (!enough && reader->Read(&event)) {
    enough = goes_on && waits && reached.Add(event);
    take(event);
  }
  if (enough) context.TryCancel();
  const grpc::Status status = reader->Finish();
  *interrupted = listener.raised();
  const bool late =
      goes_on && status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  return (enough || late) && !*interrupted ? grpc::Status::OK : status;
}

}  // namespace mpsd::client
