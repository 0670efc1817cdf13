// SPDX-License-Identifier: Apache-2.0
// The connection to a worker process in both directions: frames are the same however
// their bytes were cut, and a message that is read is written with the same bytes.
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "gpu/child/frame_decoder.hpp"
#include "gpu/child/messages.hpp"
#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "tests/fuzz/split_positions.hpp"

namespace troupe::fuzz {
namespace {

using namespace child;

struct Received {
  std::vector<std::vector<std::byte>> frames;  // written anew
  bool is_refused = false;
  bool operator==(const Received&) const = default;
};

Received receive(const Pieces& pieces) {
  FrameDecoder decoder;
  Received received;
  for (const std::string_view piece : pieces) {
    decoder.add(std::as_bytes(std::span(piece)));
    try {
      while (const auto frame = decoder.take())
        received.frames.push_back(frame_bytes(frame->kind, frame->body));
    } catch (const ProtocolError&) {
      received.is_refused = true;
      return received;
    }
  }
  return received;
}

template <class Message>
void check_body(std::string_view bytes) {
  const auto span = std::as_bytes(std::span(bytes));
  const Frame frame{.kind = kKindOf<Message>, .body = {span.begin(), span.end()}};
  try {
    const auto message = decode<Message>(frame);
    require(encode(message) == frame_bytes(frame.kind, frame.body),
            "a message is other bytes when it is sent on");
  } catch (const ProtocolError&) {
  }
}

// The first byte says of which kind the rest is, the last kind: frames, header and all.
template <class... Message>
void check_kinds(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto kind = static_cast<unsigned char>(bytes.front()) % (sizeof...(Message) + 1);
  bytes.remove_prefix(1);
  std::size_t number = 0;
  (..., (kind == number++ ? check_body<Message>(bytes) : void()));
  if (kind < number) return;
  const Received whole = receive({bytes});
  for_each_split(bytes, [&](const Pieces& pieces) {
    require(receive(pieces) == whole, "other frames when cut elsewhere");
  });
}

}  // namespace

void fuzz_wire_to_worker(std::string_view bytes) {
  check_kinds<Hello, StartBackend, MakeDevice, SubmitBatch, EndDevice>(bytes);
}

void fuzz_wire_to_server(std::string_view bytes) {
  check_kinds<Hello, BackendPlan, DeviceDescription, BatchAnswer, DeviceEnded, WorkerError>(bytes);
}

}  // namespace troupe::fuzz
