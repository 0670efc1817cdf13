// SPDX-License-Identifier: Apache-2.0
#include "app/loading/model_fingerprint.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <sstream>
#include <stdexcept>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "app/loading/model_source.hpp"
#include "gpu/kept_file.hpp"
#include "gpu/model/mapped_file.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxKeptBytes = 1 << 20;
constexpr std::size_t kMaxKeptFiles = 1000;

class Fingerprint {
 public:
  Fingerprint() { XXH3_128bits_reset(&state_); }

  void add(std::span<const std::byte> bytes) {
    const std::uint64_t size = bytes.size();  // so that no two series of parts are alike
    XXH3_128bits_update(&state_, &size, sizeof size);
    XXH3_128bits_update(&state_, bytes.data(), bytes.size());
  }
  void add(const std::string& text) { add(std::as_bytes(std::span(text))); }
  void add_file(const std::filesystem::path& path) { add(MappedFile(path).bytes()); }

  std::array<std::uint64_t, 2> value() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return {hash.low64, hash.high64};
  }

 private:
  XXH3_state_t state_;
};

std::string digest_of(const std::filesystem::path& path) {
  Fingerprint contents;
  contents.add_file(path);
  std::string digest;
  for (const std::uint64_t part : contents.value()) digest += std::to_string(part) + "-";
  return digest;
}

// Digests of files' contents by their identity: a line each, "DIGEST IDENTITY", the latest first.
class KeptDigests {
 public:
  // -1: nothing is kept.
  explicit KeptDigests(int directory) : directory_(directory) {
    std::istringstream lines(read());
    for (std::string line; std::getline(lines, line) && lines_.size() < kMaxKeptFiles;)
      lines_.push_back(line);
  }

  std::string find_or_make(const std::filesystem::path& path) {
    const std::string identity = " " + file_identity(path);
    const auto found = std::find_if(lines_.begin(), lines_.end(),
                                    [&](const std::string& line) { return line.ends_with(identity); });
    if (found != lines_.end()) return found->substr(0, found->size() - identity.size());
    const std::string digest = digest_of(path);
    const bool is_unchanged = identity == " " + file_identity(path);
    if (!is_unchanged || identity.find('\n') != std::string::npos) return digest;
    lines_.insert(lines_.begin(), digest + identity);
    has_new_ = true;
    return digest;
  }

  void keep() const {
    if (directory_ < 0 || !has_new_) return;
    std::string text;
    for (const auto& line : lines_) text += line + "\n";
    if (text.size() > kMaxKeptBytes) text.resize(text.rfind('\n', kMaxKeptBytes - 1) + 1);
    try {
      replace_kept_file(directory_, kName, text);
    } catch (const std::runtime_error& error) {
      log(LogLevel::kWarning, "digests of the model's files can't be kept", {{"reason", error.what()}});
    }
  }

 private:
  static constexpr const char* kName = "model-digests";

  // Empty: there are none.
  std::string read() const {
    if (directory_ < 0) return {};
    try {
      return read_kept_file(directory_, kName, kMaxKeptBytes).value_or("");
    } catch (const std::runtime_error& error) {
      log(LogLevel::kInfo, "digests of the model's files are made anew", {{"reason", error.what()}});
      return {};
    }
  }

  int directory_;
  std::vector<std::string> lines_;
  bool has_new_ = false;
};

void add_weights(Fingerprint& fingerprint, const std::filesystem::path& model, int directory) {
  KeptDigests digests(directory);
  for (const auto& file : weight_files(model)) {
    fingerprint.add(file.filename().string());
    fingerprint.add(digests.find_or_make(file));
  }
  digests.keep();
}

}  // namespace

std::array<std::uint64_t, 2> model_fingerprint(const std::filesystem::path& model,
                                               const std::string& computation, int directory) {
  Fingerprint fingerprint;
  fingerprint.add(computation);
  fingerprint.add_file("/proc/self/exe");
  add_weights(fingerprint, model, directory);
  return fingerprint.value();
}

std::uint64_t state_fingerprint(const std::filesystem::path& model, const std::string& computation,
                                int directory) {
  Fingerprint fingerprint;
  fingerprint.add(computation);
  add_weights(fingerprint, model, directory);
  return fingerprint.value()[0];
}

}  // namespace troupe
