// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/vectors/embedding_json.hpp"

#include <bit>
#include <cmath>
#include <vector>

#include <openssl/evp.h>

#include "http/json/json_text.hpp"

namespace troupe {
namespace {

// A vector of zeros stays as it is.
std::vector<float> shortened(std::span<const float> vector) {
  double sum = 0;
  for (const float x : vector) sum += double{x} * x;
  const double length = sum > 0 ? std::sqrt(sum) : 1;
  std::vector<float> result;
  result.reserve(vector.size());
  for (const float x : vector) result.push_back(static_cast<float>(x / length));
  return result;
}

void append_numbers(std::string& out, std::span<const float> vector) {
  out += '[';
  for (std::size_t i = 0; i < vector.size(); ++i) {
    if (i > 0) out += ',';
    append_json_float(out, vector[i]);
  }
  out += ']';
}

void append_base64(std::string& out, std::span<const float> vector) {
  static_assert(std::endian::native == std::endian::little);
  const auto bytes = std::as_bytes(vector);
  const std::size_t start = out.size();
  const std::size_t num_characters = (bytes.size() + 2) / 3 * 4;
  out.resize(start + num_characters + 1);  // OpenSSL writes a zero behind them
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data() + start),
                  reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  out.resize(start + num_characters);
}

}  // namespace

void append_embedding(std::string& out, const EmbeddingView& view, std::size_t index) {
  std::span<const float> vector = view.vectors.subspan(index * view.size, view.dimensions);
  std::vector<float> unit;
  if (view.dimensions < view.size) vector = unit = shortened(vector);
  if (view.format == EmbeddingFormat::kBare) return append_numbers(out, vector);
  out += "{\"object\":\"embedding\",\"index\":";
  append_json_integer(out, static_cast<std::int64_t>(index));
  out += ",\"embedding\":";
  if (view.format == EmbeddingFormat::kFloat) {
    append_numbers(out, vector);
  } else {
    out += '"';
    append_base64(out, vector);
    out += '"';
  }
  out += '}';
}

}  // namespace troupe
