// SPDX-License-Identifier: Apache-2.0
#include "app/page_cost_file.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <vector>

#include <nlohmann/json.hpp>

namespace troupe {

const char* const kPageCostFile = "page-costs.json";

namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr std::size_t kMostBytes = 64 << 10;
constexpr std::size_t kMostContexts = 32;
constexpr double kLongest = 1e13;  // ns; nearly three hours for a page are no measurement
const char* const kTemporaryFile = "page-costs.json.new";

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

std::string reason() { return std::strerror(errno); }

// nullopt with an empty problem: no file.
std::optional<std::string> text_of(int directory, std::string& problem) {
  const File file(::openat(directory, kPageCostFile, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    if (errno != ENOENT) problem = reason();
    return std::nullopt;
  }
  struct stat about {};
  if (::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) {
    problem = "expected a regular file";
    return std::nullopt;
  }
  std::string text(kMostBytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(file.get(), text.data() + size, text.size() - size);
    if (count < 0) {
      if (errno == EINTR) continue;
      problem = reason();
      return std::nullopt;
    }
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  if (size > kMostBytes) {
    problem = "expected at most " + std::to_string(kMostBytes) + " bytes, got more";
    return std::nullopt;
  }
  text.resize(size);
  return text;
}

bool is_time(const Json& value) {
  return value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= 0 &&
         value.get<double>() <= kLongest;
}

// A member that may be absent.
const Json& member(const Json& object, const char* name) {
  static const Json kNothing;
  const auto found = object.find(name);
  return found == object.end() ? kNothing : *found;
}

// Times in nanoseconds; nullopt if one is none.
std::optional<std::vector<double>> times_of(const Json& list, std::size_t least, std::size_t most) {
  if (!list.is_array() || list.size() < least || list.size() > most) return std::nullopt;
  std::vector<double> times;
  for (const Json& time : list) {
    if (!is_time(time)) return std::nullopt;
    times.push_back(time.get<double>());
  }
  return times;
}

std::optional<RestoreCosts> costs_of(const Json& file, std::string& problem) {
  const Json& constant = member(file, "constant_ns");
  const auto attention = times_of(member(file, "attention_ns"), 0, kMostContexts);
  const auto host = times_of(member(file, "load_from_host_ns"), 2, 2);
  const auto disk = times_of(member(file, "load_from_disk_ns"), 2, 2);
  if (!is_time(constant) || constant.get<double>() <= 0 || !attention || !host || !disk) {
    problem = "expected times in nanoseconds";
    return std::nullopt;
  }
  return RestoreCosts{.recompute = {.constant = constant.get<double>(), .attention = *attention},
                      .host = {.fixed = host->front(), .per_page = host->back()},
                      .disk = {.fixed = disk->front(), .per_page = disk->back()}};
}

bool write_all(int file, const std::string& text) {
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t count = ::write(file, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    written += static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace

std::optional<RestoreCosts> read_page_costs(int directory, const std::string& key,
                                            std::string& problem) {
  problem.clear();
  const auto text = text_of(directory, problem);
  if (!text) return std::nullopt;
  const Json file = Json::parse(*text, nullptr, false);
  if (!file.is_object() || member(file, "format") != kFormat) {
    problem = "expected JSON of format " + std::to_string(kFormat);
    return std::nullopt;
  }
  if (member(file, "key") != key) {
    problem = "measured for another model, machine or version";
    return std::nullopt;
  }
  return costs_of(file, problem);
}

std::string write_page_costs(int directory, const std::string& key, const RestoreCosts& costs) {
  const Json json = {{"format", kFormat},
                     {"key", key},
                     {"constant_ns", costs.recompute.constant},
                     {"attention_ns", costs.recompute.attention},
                     {"load_from_host_ns", {costs.host.fixed, costs.host.per_page}},
                     {"load_from_disk_ns", {costs.disk.fixed, costs.disk.per_page}}};
  ::unlinkat(directory, kTemporaryFile, 0);  // left by a process that was killed
  const File file(::openat(directory, kTemporaryFile,
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) return reason();
  if (!write_all(file.get(), json.dump(2) + "\n") ||
      ::renameat(directory, kTemporaryFile, directory, kPageCostFile) != 0) {
    std::string problem = reason();
    ::unlinkat(directory, kTemporaryFile, 0);
    return problem;
  }
  return {};
}

}  // namespace troupe
