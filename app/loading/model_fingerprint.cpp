// SPDX-License-Identifier: Apache-2.0
#include "app/loading/model_fingerprint.hpp"

#include <cstddef>
#include <span>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "app/loading/model_source.hpp"
#include "gpu/model/mapped_file.hpp"

namespace troupe {
namespace {

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

}  // namespace

std::array<std::uint64_t, 2> model_fingerprint(const std::filesystem::path& model,
                                               const std::string& computation) {
  Fingerprint fingerprint;
  fingerprint.add(computation);
  fingerprint.add_file("/proc/self/exe");
  for (const auto& file : weight_files(model)) {
    fingerprint.add(file.filename().string());
    fingerprint.add_file(file);
  }
  return fingerprint.value();
}

}  // namespace troupe
