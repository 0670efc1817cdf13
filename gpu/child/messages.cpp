// SPDX-License-Identifier: Apache-2.0
#include "gpu/child/messages.hpp"

#include <algorithm>

namespace troupe::child {

const char* name_of(MessageKind kind) {
  switch (kind) {
    case MessageKind::kHello: return "Hello";
    case MessageKind::kStartBackend: return "StartBackend";
    case MessageKind::kBackendPlan: return "BackendPlan";
    case MessageKind::kMakeDevice: return "MakeDevice";
    case MessageKind::kDeviceDescription: return "DeviceDescription";
    case MessageKind::kSubmitBatch: return "SubmitBatch";
    case MessageKind::kBatchAnswer: return "BatchAnswer";
    case MessageKind::kEndDevice: return "EndDevice";
    case MessageKind::kDeviceEnded: return "DeviceEnded";
    case MessageKind::kWorkerError: return "WorkerError";
  }
  return "?";
}

std::vector<std::byte> frame_bytes(MessageKind kind, std::span<const std::byte> body) {
  if (body.size() > kMaxBodyBytes)
    throw ProtocolError(std::string(name_of(kind)) + " of " + std::to_string(body.size()) +
                        " bytes is too long to be sent");
  WireWriter header;
  header.write(FrameHeader{.kind = kind, .body_bytes = static_cast<std::uint32_t>(body.size())});
  std::vector<std::byte> frame(kFrameHeaderBytes + body.size());
  std::copy(header.bytes().begin(), header.bytes().end(), frame.begin());
  std::copy(body.begin(), body.end(), frame.begin() + kFrameHeaderBytes);
  return frame;
}

void expect_kind(const Frame& frame, MessageKind expected) {
  if (frame.kind != expected)
    throw ProtocolError(std::string("expected ") + name_of(expected) + ", got " + name_of(frame.kind));
}

}  // namespace troupe::child
