// SPDX-License-Identifier: Apache-2.0
// Messages between a server and its worker process. Each message is one
// frame: a header of 12 bytes and a body of plain structs (gpu/child/wire.hpp).
//
//   server                                   worker
//     Hello ──►                         ◄── Hello       same build, or nothing
//     StartBackend ──►                  ◄── BackendPlan      | WorkerError
//     MakeDevice (+ memory) ──►         ◄── DeviceDescription | WorkerError
//     SubmitBatch ──►  ──►  ──►         ◄── BatchAnswer, in order
//     EndDevice ──►                     ◄── DeviceEnded      then MakeDevice again
//   the end of the connection is the end of the worker.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpu/backend_fingerprint.hpp"
#include "gpu/child/wire.hpp"

namespace troupe::child {

inline constexpr std::uint32_t kMagic = 0x50555254;  // "TRUP"
inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr std::uint32_t kMaxBodyBytes = 64U << 20;
// Limit of a batch: its penalized tokens take at most half of its frame.
inline constexpr std::uint32_t kMaxPenalizedTokens = kMaxBodyBytes / 2 / sizeof(PenalizedToken);

enum class MessageKind : std::uint16_t {
  kHello,
  kStartBackend,
  kBackendPlan,
  kMakeDevice,
  kDeviceDescription,
  kSubmitBatch,
  kBatchAnswer,
  kEndDevice,
  kDeviceEnded,
  kWorkerError,
};

struct FrameHeader {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kProtocolVersion;
  MessageKind kind = MessageKind::kHello;
  std::uint32_t body_bytes = 0;
};
inline constexpr std::size_t kFrameHeaderBytes = 12;

struct Hello {
  std::uint64_t fingerprint = kBackendFingerprint;
};

enum class BackendKind : std::uint8_t { kCpu, kCuda };

struct StartBackend {
  BackendKind kind = BackendKind::kCpu;
  std::string library;  // of CUDA
  BackendSettings settings;
};

// The memory itself comes with it as a file descriptor.
struct MakeDevice {
  std::uint32_t num_host_pages = 0;  // 0: no host tier, and no descriptor
  std::uint64_t host_page_bytes = 0;
};

struct SubmitBatch {
  Ticket ticket = 0;
  Batch batch;
};

struct BatchAnswer {
  Ticket ticket = 0;
  BatchResult result;
};

struct EndDevice {
  bool unused = false;
};

struct DeviceEnded {
  bool unused = false;
};

struct WorkerError {
  std::string text;
};

TROUPE_FIELDS(FrameHeader, magic, version, kind, body_bytes)
TROUPE_FIELDS(Hello, fingerprint)
TROUPE_FIELDS(StartBackend, kind, library, settings)
TROUPE_FIELDS(MakeDevice, num_host_pages, host_page_bytes)
TROUPE_FIELDS(SubmitBatch, ticket, batch)
TROUPE_FIELDS(BatchAnswer, ticket, result)
TROUPE_FIELDS(EndDevice, unused)
TROUPE_FIELDS(DeviceEnded, unused)
TROUPE_FIELDS(WorkerError, text)

template <>
inline constexpr MessageKind kLast<MessageKind> = MessageKind::kWorkerError;
template <>
inline constexpr BackendKind kLast<BackendKind> = BackendKind::kCuda;

template <class T>
inline constexpr MessageKind kKindOf = MessageKind::kHello;
template <>
inline constexpr MessageKind kKindOf<StartBackend> = MessageKind::kStartBackend;
template <>
inline constexpr MessageKind kKindOf<BackendPlan> = MessageKind::kBackendPlan;
template <>
inline constexpr MessageKind kKindOf<MakeDevice> = MessageKind::kMakeDevice;
template <>
inline constexpr MessageKind kKindOf<DeviceDescription> = MessageKind::kDeviceDescription;
template <>
inline constexpr MessageKind kKindOf<SubmitBatch> = MessageKind::kSubmitBatch;
template <>
inline constexpr MessageKind kKindOf<BatchAnswer> = MessageKind::kBatchAnswer;
template <>
inline constexpr MessageKind kKindOf<EndDevice> = MessageKind::kEndDevice;
template <>
inline constexpr MessageKind kKindOf<DeviceEnded> = MessageKind::kDeviceEnded;
template <>
inline constexpr MessageKind kKindOf<WorkerError> = MessageKind::kWorkerError;

struct Frame {
  MessageKind kind = MessageKind::kHello;
  std::vector<std::byte> body;
};

const char* name_of(MessageKind kind);

// The bytes of a whole frame. Throws ProtocolError if the body is too long.
template <class T>
std::vector<std::byte> encode(const T& message);
// The same of a message that is not there as a whole: its fields, in order.
template <class T, class... Fields>
std::vector<std::byte> encode_fields(const Fields&... fields);
std::vector<std::byte> frame_bytes(MessageKind kind, std::span<const std::byte> body);

// Throws ProtocolError if the frame is of another kind, or its body is wrong.
template <class T>
T decode(const Frame& frame);
void expect_kind(const Frame& frame, MessageKind expected);

template <class T>
std::vector<std::byte> encode(const T& message) {
  WireWriter body;
  body.write(message);
  return frame_bytes(kKindOf<T>, body.bytes());
}

template <class T, class... Fields>
std::vector<std::byte> encode_fields(const Fields&... fields) {
  WireWriter body;
  (body.write(fields), ...);
  return frame_bytes(kKindOf<T>, body.bytes());
}

template <class T>
T decode(const Frame& frame) {
  expect_kind(frame, kKindOf<T>);
  T message;
  WireReader reader(frame.body);
  reader.read(message);
  reader.expect_end();
  return message;
}

}  // namespace troupe::child
