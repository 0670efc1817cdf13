// SPDX-License-Identifier: Apache-2.0
// A GGUF file of a stranger: its header by itself, and all that is read of the file as a
// model: configuration, weights, tokenizer and chat template.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "app/loading/model_source.hpp"
#include "gpu/model/gguf_header.hpp"
#include "gpu/model/weight_elements.hpp"
#include "gpu/model/weights.hpp"
#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "tests/fuzz/targets/config_checks.hpp"
#include "tests/fuzz/targets/tokenizer_checks.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe::fuzz {
namespace {

void check_tensor(const GgufTensor& tensor, std::size_t file_bytes) {
  require(!tensor.name.empty() && tensor.name.size() <= GgufLimits::kMaxNameBytes, "a name is out of bounds");
  require(!tensor.dimensions.empty() && tensor.dimensions.size() <= GgufLimits::kMaxDimensions,
          "the number of dimensions is out of bounds");
  require(tensor.begin <= file_bytes && tensor.size_bytes <= file_bytes - tensor.begin,
          "a tensor is not inside the file");
  if (tensor.layout == nullptr) return;
  std::uint64_t num_elements = 1;
  for (const std::uint64_t dimension : tensor.dimensions) num_elements *= dimension;
  require(tensor.size_bytes == num_elements / tensor.layout->num_elements * tensor.layout->num_bytes,
          "a tensor has other bytes than its shape needs");
}

void check_no_overlap(std::vector<GgufTensor> tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const GgufTensor& a, const GgufTensor& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < tensors.size(); ++i)
    require(tensors[i - 1].begin + tensors[i - 1].size_bytes <= tensors[i].begin, "tensors share bytes");
}

// Calls `read`; a refusal names the file.
template <class Read>
void read_or_refuse(const std::filesystem::path& path, const Read& read) {
  try {
    read();
  } catch (const std::runtime_error& error) {
    require(std::string_view(error.what()).starts_with(path.string()), "a refusal names no file");
  }
}

// f16 has no conversion here: its exponent says enough.
bool is_finite(const WeightElements& elements, std::size_t index) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, elements.data() + index * size_of(elements.type()), size_of(elements.type()));
  const std::uint32_t exponent = elements.type() == DataType::kF32    ? 0x7F800000
                                 : elements.type() == DataType::kBF16 ? 0x7F80
                                                                      : 0x7C00;
  return (bits & exponent) != exponent;
}

// A tensor as a network of exactly its shape would read it.
void check_weight(const std::string& name, const WeightView& view) {
  const WeightElements elements(view);
  try {
    check_finite({.name = name, .sources = {name}}, {view});
  } catch (const std::runtime_error&) {
    return;
  }
  for (std::size_t i = 0; i < elements.num_elements(); ++i)
    require(is_finite(elements, i), "a weight is not finite, and was said to be");
}

void check_weights_of(const std::filesystem::path& path) {
  const WeightStore store(path);
  for (const auto& [name, tensor] : store.tensors())
    if (tensor.is_readable) check_weight(name, store.find(name));
}

}  // namespace

void fuzz_gguf_header(std::string_view bytes) {
  try {
    const GgufHeader header = parse_gguf(std::as_bytes(std::span(bytes)));
    for (const GgufTensor& tensor : header.tensors) check_tensor(tensor, bytes.size());
    check_no_overlap(header.tensors);
  } catch (const std::runtime_error& error) {
    require(error.what()[0] != '\0', "a file is refused without a reason");
  }
}

void fuzz_gguf_file(std::string_view bytes) {
  static const TemporaryDirectory directory;
  const auto path = directory.write("model.gguf", bytes);
  read_or_refuse(path, [&] { check_config(load_model_config(path)); });
  read_or_refuse(path, [&] { check_defaults(load_generation_defaults(path)); });
  read_or_refuse(path, [&] { check_weights_of(path); });
  read_or_refuse(path, [&] { check_tokenizer(*load_model_tokenizer(path)); });
  read_or_refuse(path, [&] { load_model_template(path); });
}

}  // namespace troupe::fuzz
