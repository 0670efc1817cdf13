// SPDX-License-Identifier: Apache-2.0
// A directory's tokenizer as the keys of a GGUF file: the inverse of gguf_tokenizer.hpp. The keys lack
// words for some of what a tokenizer.json says; then the file itself goes along, for readers that know it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer/gguf_tokenizer.hpp"

namespace troupe {

struct GgufExport {
  GgufVocabulary vocabulary;  // with token_type, add_bos_token and add_eos_token
  std::optional<std::uint64_t> unknown_token_id;
  // Sentences: texts that have other tokens, and tokens another text, in programs that read the keys alone.
  // Empty: the keys say all.
  std::vector<std::string> losses;
};

// num_tokens: the model's; ids from there on are left out, and ids that no token has are filled.
// most_bytes: of a tokenizer.json that goes along. Throws std::runtime_error that names the file and what
// the format has no word for.
GgufExport export_tokenizer(const std::filesystem::path& model_dir, std::size_t num_tokens,
                            std::size_t most_bytes);

}  // namespace troupe
