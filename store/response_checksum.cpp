// SPDX-License-Identifier: Apache-2.0
#include "store/response_checksum.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string_view>

namespace troupe {
namespace {

class Checksum {
 public:
  Checksum() { XXH3_64bits_reset(&state_); }

  Checksum& add(std::uint64_t number) {
    XXH3_64bits_update(&state_, &number, sizeof number);
    return *this;
  }
  Checksum& add(std::string_view text) {
    add(std::uint64_t{text.size()});
    XXH3_64bits_update(&state_, text.data(), text.size());
    return *this;
  }
  Checksum& add(const std::vector<std::int32_t>& tokens) {
    return add(
        std::string_view(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(std::int32_t)));
  }
  std::uint64_t result() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

}  // namespace

std::uint64_t checksum_of(const StoredResponse& response) {
  Checksum checksum;
  checksum.add(response.id).add(response.previous).add(response.tenant);
  checksum.add(static_cast<std::uint64_t>(response.created));
  checksum.add(static_cast<std::uint64_t>(response.expires));
  checksum.add(response.model).add(response.instructions).add(response.settings).add(response.output);
  checksum.add(std::uint64_t{response.is_complete}).add(std::uint64_t{response.prompt_tokens});
  checksum.add(std::uint64_t{response.completion_tokens}).add(std::uint64_t{response.cached_tokens});
  checksum.add(response.vocabulary).add(std::uint64_t{response.extends_previous}).add(response.tokens);
  checksum.add(std::uint64_t{response.input.size()});
  for (const auto& message : response.input) checksum.add(message.role).add(message.content);
  // Version 1 of the file had no such answers.
  if (!response.answer.empty()) checksum.add(std::uint64_t{response.answer.size()});
  for (const auto& item : response.answer) checksum.add(item.role).add(item.content);
  return checksum.result();
}

}  // namespace troupe
