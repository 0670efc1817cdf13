// SPDX-License-Identifier: Apache-2.0
// The vectors of an answer to POST /v1/embeddings as JSON, one element after the
// other: many are megabytes, and are written as the client takes them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "http/api/requests/openai_api.hpp"

namespace troupe {

// Vectors and the form in which they are wanted. A view: the vectors outlive it.
struct EmbeddingView {
  std::span<const float> vectors;  // [num_vectors(), size]; finite
  std::uint32_t size = 0;
  // The first of size. If they are fewer, each vector is brought back to length 1.
  std::uint32_t dimensions = 0;
  EmbeddingFormat format = EmbeddingFormat::kFloat;

  std::size_t num_vectors() const { return size == 0 ? 0 : vectors.size() / size; }
};

// {"object":"embedding","index":…,"embedding":…}, or of kBare the numbers alone
void append_embedding(std::string& out, const EmbeddingView& view, std::size_t index);

}  // namespace troupe
