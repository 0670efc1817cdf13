// SPDX-License-Identifier: Apache-2.0
#include "gpu/child/frame_decoder.hpp"

#include <string>

namespace troupe::child {

void FrameDecoder::add(std::span<const std::byte> bytes) {
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

std::optional<Frame> FrameDecoder::take() {
  const auto rest = std::span<const std::byte>(bytes_).subspan(begin_);
  if (rest.size() < kFrameHeaderBytes) return std::nullopt;
  FrameHeader header;
  WireReader reader(rest.first(kFrameHeaderBytes));
  reader.read(header.magic);
  reader.read(header.version);
  if (header.magic != kMagic) throw ProtocolError("what came is no frame");
  if (header.version != kProtocolVersion)
    throw ProtocolError("expected version " + std::to_string(kProtocolVersion) + " of the protocol, got " +
                        std::to_string(header.version));
  reader.read(header.kind);
  reader.read(header.body_bytes);
  reader.expect_end();
  if (header.body_bytes > kMaxBodyBytes)
    throw ProtocolError("a message of " + std::to_string(header.body_bytes) + " bytes");
  if (rest.size() - kFrameHeaderBytes < header.body_bytes) return std::nullopt;
  const auto body = rest.subspan(kFrameHeaderBytes, header.body_bytes);
  begin_ += kFrameHeaderBytes + body.size();
  return Frame{.kind = header.kind, .body = {body.begin(), body.end()}};
}

}  // namespace troupe::child
