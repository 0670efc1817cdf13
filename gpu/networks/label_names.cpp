// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/label_names.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::uint32_t kMaxLabels = 4096;
constexpr std::size_t kMaxLabelBytes = 256;

}  // namespace

// "id2label": {"0": "NEGATIVE", "1": "POSITIVE"}
std::vector<std::string> read_labels(const ConfigFields& fields) {
  const json* named = fields.find("id2label");
  if (named != nullptr && (!named->is_object() || named->empty() || named->size() > kMaxLabels)) {
    fields.refuse("id2label is no object of 1 to " + std::to_string(kMaxLabels) + " names");
  }
  const std::size_t count =
      named != nullptr ? named->size() : fields.count("num_labels", kMaxLabels).value_or(2);
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    if (named == nullptr) {
      labels.push_back("LABEL_" + number);
      continue;
    }
    const auto found = named->find(number);
    if (found == named->end() || !found->is_string() ||
        found->get_ref<const std::string&>().size() > kMaxLabelBytes) {
      fields.refuse("id2label has no name of at most " + std::to_string(kMaxLabelBytes) + " bytes for " +
                    number);
    }
    labels.push_back(found->get<std::string>());
  }
  return labels;
}

}  // namespace troupe
