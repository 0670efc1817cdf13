// SPDX-License-Identifier: Apache-2.0
#include "http/server/client_stream.hpp"

#include <utility>

namespace troupe {
namespace {

constexpr std::size_t kBytesAroundText = 200;  // of an event on the wire
constexpr std::size_t kBytesOfLikelyToken = 80;
// Below any sensible EngineOptions::pause_bytes: who was never this far behind
// has not been paused.
constexpr std::size_t kFarBehindBytes = 2048;

}  // namespace

ClientStream::~ClientStream() {
  if (const std::size_t left = pending_bytes_.load(); left > 0) backlog_.add(-static_cast<double>(left));
}

void ClientStream::deliver(ResponseEvent event) {
  if (delivery_ == Delivery::kWhole) {
    if (const auto* delta = std::get_if<TextDelta>(&event)) collect(*delta);
    if (!is_terminal(event)) return;
  } else {
    const std::size_t bytes = cost(event);
    pending_bytes_.fetch_add(bytes);
    backlog_.add(static_cast<double>(bytes));
  }
  outbox_->put({shared_from_this(), std::move(event)});
}

bool ClientStream::take_all() {
  if (num_handled_bytes_ == 0) return false;
  const std::size_t before = pending_bytes_.fetch_sub(num_handled_bytes_);
  backlog_.add(-static_cast<double>(num_handled_bytes_));
  num_handled_bytes_ = 0;
  return before > kFarBehindBytes;
}

std::size_t ClientStream::cost(const ResponseEvent& event) {
  const auto* delta = std::get_if<TextDelta>(&event);
  if (delta == nullptr) return kBytesAroundText;
  std::size_t bytes = kBytesAroundText + delta->text.size() + delta->reasoning.size();
  for (const CallDelta& call : delta->calls)
    bytes += kBytesAroundText + call.id.size() + call.name.size() + call.arguments.size();
  for (const AnswerToken& token : delta->tokens) bytes += kBytesOfLikelyToken * (1 + token.top.size());
  return bytes;
}

}  // namespace troupe
