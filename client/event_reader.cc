// SPDX-License-Identifier: Apache-2.0
#include "client/event_reader.h"

#include <chrono>

#include "client/connection.h"
#include "client/plot/history.h"
#include "client/text/format.h"

namespace mpsd::client {
namespace {

// How long the stored events of a job without progress may take to come.
constexpr std::chrono::milliseconds kStoredEvents{1000};

}  // namespace

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
