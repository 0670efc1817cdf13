// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/conversion/gguf_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace troupe {
namespace {

// The format's numbers of value types.
enum ValueType : std::uint32_t { kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9 };

constexpr std::uint32_t kVersion = 3;
constexpr std::uint64_t kAlignment = 32;  // the format's default, which no key has to state

template <class Number>
void append(std::string& bytes, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xFFU);
}

void append_text(std::string& bytes, std::string_view text) {
  append(bytes, std::uint64_t{text.size()});
  bytes += text;
}

void append_f32(std::string& bytes, double value) {
  append(bytes, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
}

std::uint64_t aligned(std::uint64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void GgufKeys::begin(std::string_view key, std::uint32_t type) {
  append_text(bytes_, key);
  append(bytes_, type);
  ++count_;
}

void GgufKeys::begin_array(std::string_view key, std::uint32_t type, std::size_t size) {
  begin(key, kArray);
  append(bytes_, type);
  append(bytes_, std::uint64_t{size});
}

void GgufKeys::add_count(std::string_view key, std::uint64_t value) {
  if (value > UINT32_MAX) throw std::logic_error(std::string(key) + " does not fit into 32 bits");
  begin(key, kU32);
  append(bytes_, static_cast<std::uint32_t>(value));
}

void GgufKeys::add_number(std::string_view key, double value) {
  begin(key, kF32);
  append_f32(bytes_, value);
}

void GgufKeys::add_flag(std::string_view key, bool value) {
  begin(key, kBool);
  bytes_ += value ? '\1' : '\0';
}

void GgufKeys::add_text(std::string_view key, std::string_view text) {
  begin(key, kString);
  append_text(bytes_, text);
}

void GgufKeys::add_texts(std::string_view key, std::span<const std::string> texts) {
  begin_array(key, kString, texts.size());
  for (const std::string& text : texts) append_text(bytes_, text);
}

void GgufKeys::add_numbers(std::string_view key, std::span<const double> values) {
  begin_array(key, kF32, values.size());
  for (const double value : values) append_f32(bytes_, value);
}

void GgufKeys::add_integers(std::string_view key, std::span<const std::int64_t> values) {
  begin_array(key, kI32, values.size());
  for (const std::int64_t value : values) append(bytes_, static_cast<std::uint32_t>(value));
}

void GgufKeys::add_bytes(std::string_view key, std::span<const std::byte> type_and_value) {
  append_text(bytes_, key);
  bytes_.append(reinterpret_cast<const char*>(type_and_value.data()), type_and_value.size());
  ++count_;
}

std::uint64_t GgufOutputTensor::num_rows() const {
  std::uint64_t rows = 1;
  for (std::size_t i = 1; i < dimensions.size(); ++i) rows *= dimensions[i];
  return rows;
}

std::uint64_t GgufOutputTensor::row_bytes() const {
  const BlockLayout& layout = layout_of(format);
  return dimensions.front() / layout.num_elements * layout.num_bytes;
}

GgufOutput::GgufOutput(std::filesystem::path target, const GgufKeys& keys,
                       std::vector<GgufOutputTensor> tensors)
    : target_(std::move(target)), temporary_(target_), tensors_(std::move(tensors)) {
  temporary_ += ".partial-" + std::to_string(::getpid());
  std::string header = "GGUF";
  append(header, kVersion);
  append(header, std::uint64_t{tensors_.size()});
  append(header, keys.count());
  header += keys.bytes();
  std::uint64_t offset = 0;
  for (const GgufOutputTensor& tensor : tensors_) {
    append_text(header, tensor.name);
    append(header, static_cast<std::uint32_t>(tensor.dimensions.size()));
    for (const std::uint64_t dimension : tensor.dimensions) append(header, dimension);
    append(header, static_cast<std::uint32_t>(tensor.format));
    append(header, offset);
    begins_.push_back(offset);
    offset += aligned(tensor.size_bytes());
  }
  const std::uint64_t data = aligned(header.size());
  for (std::uint64_t& begin : begins_) begin += data;
  size_bytes_ = data + offset;
  descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(errno);
  try {
    // Space that is missing is told before the work, not behind it.
    const int error = ::posix_fallocate(descriptor_, 0, static_cast<off_t>(size_bytes_));
    if (error != 0) fail(error);
    write_at(0, std::as_bytes(std::span(header)));
  } catch (...) {
    close();
    throw;
  }
}

GgufOutput::~GgufOutput() { close(); }

void GgufOutput::write(std::size_t tensor, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (offset + bytes.size() > tensors_.at(tensor).size_bytes())
    throw std::logic_error("more bytes than tensor " + tensors_[tensor].name + " has");
  write_at(begins_[tensor] + offset, bytes);
}

void GgufOutput::finish(bool replaces) {
  if (::fsync(descriptor_) != 0) fail(errno);
  const auto rename_with = [&](unsigned flags) {
    return ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), flags) == 0;
  };
  bool is_named = rename_with(replaces ? 0 : RENAME_NOREPLACE);
  // Some file systems know no such flag.
  if (!is_named && errno == EINVAL && !replaces) {
    errno = EEXIST;
    is_named = ::access(target_.c_str(), F_OK) != 0 && rename_with(0);
  }
  if (!is_named) fail(errno);
  ::close(std::exchange(descriptor_, -1));
}

void GgufOutput::fail(int error) const {
  throw std::runtime_error(target_.string() + ": " + std::strerror(error));
}

void GgufOutput::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

void GgufOutput::close() noexcept {
  if (descriptor_ < 0) return;
  ::close(std::exchange(descriptor_, -1));
  ::unlink(temporary_.c_str());
}

}  // namespace troupe
