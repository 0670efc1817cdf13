// SPDX-License-Identifier: Apache-2.0
#include "gpu/child/frame_socket.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

namespace troupe::child {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kReadBytes = 64 << 10;
// Room for the batches in flight, so that sending one does not wait for the
// other side to read. The system may grant less.
constexpr int kSocketBufferBytes = 1 << 20;

// Of one file descriptor.
struct alignas(cmsghdr) ControlBuffer {
  std::array<char, CMSG_SPACE(sizeof(int))> bytes{};
};

bool wait_for(int descriptor, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd poll_entry{.fd = descriptor, .events = events, .revents = 0};
    const auto most = static_cast<std::chrono::milliseconds::rep>(3'600'000);
    const int time = static_cast<int>(std::clamp(left.count(), decltype(most){0}, most));
    const int found = ::poll(&poll_entry, 1, time);
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) throw ConnectionLost(std::strerror(errno));
    if (found == 0 && Clock::now() >= deadline) return false;
  }
}

void attach(msghdr& message, ControlBuffer& control, int descriptor) {
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
}

// Nothing else can come in a buffer of this size.
FileDescriptor attached_descriptor(msghdr& message) {
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return {};
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return FileDescriptor(descriptor);
}

}  // namespace

std::pair<FrameSocket, FrameSocket> FrameSocket::connected_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::runtime_error(std::string("can't make a socket pair: ") + std::strerror(errno));
  for (const int end : ends)
    ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &kSocketBufferBytes, sizeof kSocketBufferBytes);
  return {FrameSocket(FileDescriptor(ends[0])), FrameSocket(FileDescriptor(ends[1]))};
}

void FrameSocket::send(std::span<const std::byte> frame, int descriptor) {
  while (!frame.empty()) {
    iovec piece{.iov_base = const_cast<std::byte*>(frame.data()), .iov_len = frame.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    ControlBuffer control;
    if (descriptor >= 0) attach(message, control, descriptor);
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) throw ConnectionLost(std::strerror(errno));
    frame = frame.subspan(static_cast<std::size_t>(sent));
    descriptor = -1;
  }
}

std::size_t FrameSocket::send_now(std::span<const std::byte> bytes) {
  std::size_t num_sent = 0;
  while (num_sent < bytes.size()) {
    const ssize_t sent =
        ::send(socket_.get(), bytes.data() + num_sent, bytes.size() - num_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (sent < 0) throw ConnectionLost(std::strerror(errno));
    num_sent += static_cast<std::size_t>(sent);
  }
  return num_sent;
}

std::optional<Frame> FrameSocket::receive(std::chrono::milliseconds time) {
  const auto deadline = Clock::now() + time;
  for (;;) {
    if (auto frame = take()) return frame;
    if (!wait_for(socket_.get(), POLLIN, deadline)) return std::nullopt;
    read_now();
  }
}

void FrameSocket::read_now() {
  while (read_some() == kReadBytes) {
  }
}

void FrameSocket::read_rest() noexcept {
  try {
    while (read_some() > 0) {
    }
  } catch (const ConnectionLost&) {
    // as was known
  }
}

std::size_t FrameSocket::read_some() {
  std::array<std::byte, kReadBytes> buffer;
  for (;;) {
    iovec piece{.iov_base = buffer.data(), .iov_len = buffer.size()};
    ControlBuffer control;
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    const ssize_t received = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    if (received < 0) throw ConnectionLost(std::strerror(errno));
    if (auto descriptor = attached_descriptor(message); descriptor.is_open())
      received_ = std::move(descriptor);
    if (received == 0) throw ConnectionLost("the connection was closed");
    decoder_.add(std::span(buffer).first(static_cast<std::size_t>(received)));
    return static_cast<std::size_t>(received);
  }
}

}  // namespace troupe::child
