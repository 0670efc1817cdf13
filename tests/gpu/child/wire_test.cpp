// SPDX-License-Identifier: Apache-2.0
// The bytes between a server and its worker process, right, cut, flipped and
// made up.
#include "gpu/child/wire.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gpu/child/frame_decoder.hpp"
#include "gpu/child/messages.hpp"

namespace troupe::child {
namespace {

// Fills everything that fields.hpp lists with values that are all different.
class Filler {
 public:
  template <class T>
  void fill(T& value) {
    if constexpr (Fields<T>::kAreListed) {
      std::apply([this](auto&... field) { (this->fill(field), ...); }, Fields<T>::tie(value));
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = "text " + std::to_string(++number_);
    } else if constexpr (kIsList<T>) {
      value.resize(1 + number_ % 3);
      for (auto& element : value) fill(element);
    } else if constexpr (kIsOptional<T>) {
      fill(value.emplace());
    } else if constexpr (std::is_same_v<T, bool>) {
      value = true;
    } else if constexpr (std::is_enum_v<T>) {
      value = kLast<T>;
    } else if constexpr (kIsDuration<T>) {
      value = T(++number_);
    } else {
      value = static_cast<T>(++number_);
    }
  }

 private:
  int number_ = 0;
};

template <class T>
T filled() {
  T value;
  Filler().fill(value);
  return value;
}

template <class T>
std::vector<std::byte> bytes_of(const T& value) {
  WireWriter writer;
  writer.write(value);
  return writer.bytes();
}

template <class T>
T value_of(const std::vector<std::byte>& bytes) {
  T value;
  WireReader reader(bytes);
  reader.read(value);
  reader.expect_end();
  return value;
}

template <class T>
void check_round_trip() {
  const auto bytes = bytes_of(filled<T>());
  CHECK(bytes.size() >= wire_bytes_at_least<T>());
  CHECK(bytes_of(value_of<T>(bytes)) == bytes);
  CHECK(bytes != bytes_of(T{}));
  CHECK(bytes_of(value_of<T>(bytes_of(T{}))) == bytes_of(T{}));
}

// Whatever the bytes are, reading them ends in a value or a ProtocolError.
template <class T>
bool is_readable(const std::vector<std::byte>& bytes) {
  try {
    value_of<T>(bytes);
    return true;
  } catch (const ProtocolError&) {
    return false;
  }
}

template <class T>
void check_hostile(std::uint64_t seed) {
  const auto good = bytes_of(filled<T>());
  for (std::size_t size = 0; size < good.size(); ++size)
    CHECK_FALSE(is_readable<T>({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}));
  auto longer = good;
  longer.push_back(std::byte{0});
  CHECK_FALSE(is_readable<T>(longer));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    auto bad = good;
    const int num_flips = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < num_flips; ++i) bad[random() % bad.size()] = static_cast<std::byte>(random());
    is_readable<T>(bad);
  }
}

SequenceSlice a_slice() {
  SequenceSlice slice;
  slice.sequence = 1ULL << 40;
  slice.num_tokens = 2;
  slice.sample = true;
  slice.sampling.temperature = 0.5F;
  slice.suppressed = {-1, 7};
  slice.sampling.frequency_penalty = -1.5F;
  slice.sampling.top_logprobs = 3;
  slice.penalized = {{.id = 5, .num_generated = 2}};
  slice.num_pending = 1;
  return slice;
}

}  // namespace

TEST_CASE("worker protocol: every struct comes back as it was sent") {
  check_round_trip<BackendSettings>();
  check_round_trip<BackendPlan>();
  check_round_trip<DeviceDescription>();
  check_round_trip<Batch>();
  check_round_trip<BatchResult>();
  check_round_trip<StartBackend>();
  check_round_trip<MakeDevice>();
  check_round_trip<SubmitBatch>();
  check_round_trip<BatchAnswer>();
  check_round_trip<WorkerError>();
}

TEST_CASE("worker protocol: values keep their places") {
  Batch batch;
  batch.id = 9;
  batch.cell = 3;
  batch.copies = {{.direction = PageCopy::kStore, .device_page = 3, .host_page = 4, .generation = 5},
                  {.direction = PageCopy::kWithin, .device_page = 6, .from_page = 7}};
  batch.slices = {a_slice()};
  batch.token_ids = {11, 12};
  batch.page_table = {8};
  const auto got = value_of<Batch>(bytes_of(batch));
  CHECK(got.id == 9);
  CHECK(got.cell == 3);
  CHECK(got.copies == batch.copies);
  CHECK(got.slices.at(0).sequence == 1ULL << 40);
  CHECK(got.slices.at(0).sampling == batch.slices[0].sampling);
  CHECK(got.slices.at(0).suppressed == batch.slices[0].suppressed);
  CHECK(got.slices.at(0).penalized == batch.slices[0].penalized);
  CHECK(got.slices.at(0).num_pending == 1);
  CHECK(got.token_ids == batch.token_ids);
  CHECK(got.page_table == batch.page_table);
}

TEST_CASE("worker protocol: a child quantizes as it is told") {
  for (const auto quantization :
       {Quantization::kKeep, Quantization::kNone, Quantization::kQ8, Quantization::kQ4}) {
    BackendSettings settings;
    settings.quantization = quantization;
    CHECK(value_of<BackendSettings>(bytes_of(settings)).quantization == quantization);
  }
}

TEST_CASE("worker protocol: a child keeps KV and activations in the bits that it is told") {
  BackendSettings settings;
  settings.kv_type = KvType::kQ8;
  settings.activations = Activations::kQ8;
  const auto got = value_of<BackendSettings>(bytes_of(settings));
  CHECK(got.kv_type == KvType::kQ8);
  CHECK(got.activations == Activations::kQ8);
}

TEST_CASE("worker protocol: cells and vectors keep their places") {
  DeviceDescription device;
  device.cells = {
      {.name = "encoder_pass", .state = StateKind::kNone, .result = ResultKind::kVector, .vector_size = 384},
      CellType{}};
  CHECK(value_of<DeviceDescription>(bytes_of(device)).cells == device.cells);
  BatchResult result;
  result.vectors = {0.5F, -1.0F};
  CHECK(value_of<BatchResult>(bytes_of(result)).vectors == result.vectors);
}

TEST_CASE("worker protocol: cut, longer or flipped bytes are refused or read as other values") {
  check_hostile<BackendSettings>(1);
  check_hostile<BackendPlan>(2);
  check_hostile<DeviceDescription>(3);
  check_hostile<SubmitBatch>(4);
  check_hostile<BatchAnswer>(5);
}

TEST_CASE("worker protocol: a count that the bytes do not cover allocates nothing") {
  for (const std::uint32_t count : {2U, 1000U, 0x40000000U, 0xFFFFFFFFU}) {
    WireWriter writer;
    writer.write(count);
    writer.write(std::uint32_t{1});
    CHECK_FALSE(is_readable<std::vector<std::int32_t>>(writer.bytes()));
    CHECK_FALSE(is_readable<std::vector<SequenceSlice>>(writer.bytes()));
    CHECK_FALSE(is_readable<std::string>(count == 2 ? std::vector<std::byte>() : writer.bytes()));
  }
}

TEST_CASE("worker protocol: flags and enumerations have no other values than their own") {
  CHECK_FALSE(is_readable<bool>({std::byte{2}}));
  CHECK_FALSE(is_readable<DataType>({std::byte{4}}));
  CHECK_FALSE(is_readable<StateKind>({std::byte{3}}));
  CHECK_FALSE(is_readable<ResultKind>({std::byte{3}}));
  CHECK_FALSE(is_readable<CompletionSignal>({std::byte{0xFF}}));
  CHECK_FALSE(is_readable<std::optional<DataType>>({std::byte{1}, std::byte{9}}));
}

TEST_CASE("worker protocol: frames come out whole, wherever the bytes are cut") {
  std::vector<std::byte> stream;
  for (const std::uint64_t ticket : {1, 2, 3}) {
    const auto frame = encode(BatchAnswer{.ticket = ticket, .result = filled<BatchResult>()});
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  for (const std::size_t piece : {1U, 5U, 12U, 13U, 1000U}) {
    FrameDecoder decoder;
    std::vector<Ticket> tickets;
    for (std::size_t begin = 0; begin < stream.size(); begin += piece) {
      decoder.add(std::span(stream).subspan(begin, std::min(piece, stream.size() - begin)));
      while (const auto frame = decoder.take()) tickets.push_back(decode<BatchAnswer>(*frame).ticket);
    }
    CHECK(tickets == std::vector<Ticket>{1, 2, 3});
  }
}

TEST_CASE("worker protocol: what is no frame, of another version, or too long is refused at its header") {
  const auto good = encode(WorkerError{.text = "no"});
  const auto is_refused = [&](std::size_t at, std::uint8_t value) {
    auto bytes = good;
    bytes[at] = static_cast<std::byte>(value);
    bytes.resize(kFrameHeaderBytes);  // not a byte of the body is waited for
    FrameDecoder decoder;
    decoder.add(bytes);
    try {
      return decoder.take().has_value();
    } catch (const ProtocolError&) {
      return true;
    }
  };
  CHECK(is_refused(0, 0));
  CHECK(is_refused(4, 99));
  CHECK(is_refused(6, 200));
  CHECK(is_refused(11, 0xFF));
  CHECK_FALSE(is_refused(8, 77));  // a length like any other
}

TEST_CASE("worker protocol: a frame of another kind is not taken for the one expected") {
  FrameDecoder decoder;
  decoder.add(encode(WorkerError{.text = "no"}));
  const auto frame = decoder.take();
  REQUIRE(frame);
  CHECK_THROWS_WITH_AS(decode<BatchAnswer>(*frame), "expected BatchAnswer, got WorkerError", ProtocolError);
}

}  // namespace troupe::child
