// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/otlp_file_exporter.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace troupe {
namespace {

std::string system_error(const std::filesystem::path& path) {
  return path.string() + ": " + std::strerror(errno);
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// A process that was killed may have left half a line.
bool ends_in_mid_line(int descriptor, std::uint64_t size) {
  char last = '\n';
  return size > 0 && ::pread(descriptor, &last, 1, static_cast<off_t>(size) - 1) == 1 && last != '\n';
}

}  // namespace

OtlpFileExporter::OtlpFileExporter(std::filesystem::path path, std::uint64_t max_bytes,
                                   const TraceSource& source)
    : path_(std::move(path)), max_bytes_(max_bytes), json_(source), complaint_(path_.string()) {
  open();
}

OtlpFileExporter::~OtlpFileExporter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OtlpFileExporter::open() {
  constexpr int kFlags = O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
  descriptor_ = ::open(path_.c_str(), kFlags, 0600);  // prompts and answers may be in it
  if (descriptor_ < 0 && errno == ELOOP)
    throw std::runtime_error("the trace file must not be a symbolic link: " + path_.string());
  if (descriptor_ < 0) throw std::runtime_error("the trace file can't be opened: " + system_error(path_));
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode))
    throw std::runtime_error("the trace file must be a regular file: " + path_.string());
  num_bytes_ = static_cast<std::uint64_t>(status.st_size);
  if (ends_in_mid_line(descriptor_, num_bytes_)) append("");
}

std::size_t OtlpFileExporter::send(const std::vector<SpanTree>& trees, const ExportDeadline&) {
  try {
    if (num_bytes_ >= max_bytes_ || descriptor_ < 0) rotate();
    if (!append(json_.request_of(trees))) {
      complaint_.note_failure(system_error(path_));
      return 0;
    }
    complaint_.note_success();
    return count_spans(trees);
  } catch (const std::exception& error) {
    complaint_.note_failure(error.what());
    return 0;
  }
}

void OtlpFileExporter::rotate() {
  if (descriptor_ >= 0) {
    ::close(std::exchange(descriptor_, -1));
    std::filesystem::rename(path_, path_.string() + ".1");
  }
  open();
}

// All of the line or nothing of it: a disk that is full leaves no half lines.
bool OtlpFileExporter::append(const std::string& line) {
  if (write_all(descriptor_, line + "\n")) {
    num_bytes_ += line.size() + 1;
    return true;
  }
  const int reason = errno;
  if (::ftruncate(descriptor_, static_cast<off_t>(num_bytes_)) == 0) errno = reason;
  return false;
}

}  // namespace troupe
