// SPDX-License-Identifier: Apache-2.0
// The "precompiled_charsmap" of sentencepiece: character sequences and what each becomes, as a double
// array followed by the replacements. Applied as Hugging Face's tokenizers apply it, which is not
// sentencepiece's way: by grapheme clusters, and by the shortest sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/encoding_budget.hpp"

namespace troupe {

class PrecompiledMap {
 public:
  // bytes: the size of the double array in bytes (u32), its units (u32), the replacements, each
  // with a NUL behind. Throws std::runtime_error saying what is wrong with them.
  explicit PrecompiledMap(std::string_view bytes);

  // `text` is valid UTF-8; so is the result, of which never more than max_bytes are made. Throws
  // EncodingStopped, also where they would be more.
  std::string apply(std::string_view text, std::size_t max_bytes, EncodingBudget& budget) const;

 private:
  // The replacement of the shortest sequence that the text begins with; nullopt: there is none.
  std::optional<std::string_view> find(std::string_view text) const;
  // out: at most max_bytes.
  void append_cluster(std::string_view cluster, std::size_t max_bytes, EncodingBudget& budget,
                      std::string& out) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace troupe
