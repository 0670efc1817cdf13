// SPDX-License-Identifier: Apache-2.0
// One end of the connection between a server and its worker process: frames
// over a stream socket, in order, and file descriptors beside them.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "gpu/child/file_descriptor.hpp"
#include "gpu/child/frame_decoder.hpp"

namespace troupe::child {

// The other side has gone.
struct ConnectionLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Sending and receiving may overlap; each by one thread at a time.
class FrameSocket {
 public:
  FrameSocket() = default;
  explicit FrameSocket(FileDescriptor socket) : socket_(std::move(socket)) {}

  // Two ends that are connected, closed on exec. Throws std::runtime_error.
  static std::pair<FrameSocket, FrameSocket> connected_pair();

  int descriptor() const { return socket_.get(); }
  void close() { socket_.reset(); }

  // Waits until all is sent, the descriptor (-1: none) with the first byte.
  // Throws ConnectionLost.
  void send(std::span<const std::byte> frame, int descriptor = -1);
  template <class T>
  void send(const T& message, int descriptor = -1) {
    const std::vector<std::byte> frame = encode(message);
    send(std::span<const std::byte>(frame), descriptor);
  }

  // Never waits: how many bytes the socket took. Throws ConnectionLost.
  std::size_t send_now(std::span<const std::byte> bytes);

  // The next frame; nullopt: none has come in that time. Throws ConnectionLost,
  // ProtocolError.
  std::optional<Frame> receive(std::chrono::milliseconds time);

  // Reads the bytes that have come, for take(): never waits. Throws ConnectionLost, after
  // which take() still gives what came before.
  void read_now();
  // All that is there still, of a connection that was lost: never waits.
  void read_rest() noexcept;
  std::optional<Frame> take() { return decoder_.take(); }  // throws ProtocolError

  // The newest descriptor that came; closed if there was none.
  FileDescriptor take_descriptor() { return std::exchange(received_, FileDescriptor()); }

 private:
  // At most kReadBytes; 0: nothing is there. Throws ConnectionLost.
  std::size_t read_some();

  FileDescriptor socket_;
  FrameDecoder decoder_;
  FileDescriptor received_;
};

}  // namespace troupe::child
